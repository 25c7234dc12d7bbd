"use strict";
const field = document.getElementById("search"), hits = document.getElementById("hits");
const parts = [...document.querySelectorAll("[data-find]")].map((one) => [one, one.dataset.find.toLowerCase()]);
function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [one, text] of parts) {
    one.hidden = !words.every((word) => text.includes(word));
    shown += !one.hidden;
  }
  hits.textContent = words.length ? `${shown} of ${parts.length} entries` : "";
  history.replaceState(null, "", words.length ? `#q=${encodeURIComponent(field.value)}` : location.pathname);
}
field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape" && document.activeElement === field) { field.value = ""; search(); }
});
if (location.hash.startsWith("#q=")) { field.value = decodeURIComponent(location.hash.slice(3)); search(); }
