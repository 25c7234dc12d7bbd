"use strict";
const explanation = JSON.parse(document.getElementById("explanation").textContent);
const sections = [...document.querySelectorAll("section[data-backend]")];
const search = document.getElementById("search");
const left = document.getElementById("left");
const matches = document.getElementById("matches");
const state = sections.map(() => ({ chosen: null, zoom: 1, found: [] }));
const narrow = window.matchMedia("(max-width: 70rem)"); // as in explain.css
let shown = 0;
let closed = [];

const section = () => sections[shown];
const graph = () => section().querySelector(".graph");
const backend = () => explanation.backends[shown];
const node = (place) => section().querySelector(`.op[data-place="${place}"]`);

// ---------------------------------------------------------------- the chosen operator

function element(tag, text) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  return made;
}

function list(texts) {
  const made = element("ul");
  made.append(...texts.map((text) => element("li", text)));
  return made;
}

function number(count) {
  return count.toLocaleString("en");
}

function* facts(one) {
  yield ["module", `${one.module || "(model)"}${one.kind ? ` (${one.kind})` : ""}`];
  if (one.source) yield ["line", `${one.source}: ${one.code}`];
  yield ["result", `${one.shape.join("x") || "scalar"} ${one.dtype}`];
  yield ["takes", one.inputs.join(", ")];
  yield ["costs", `${number(one.macs)} multiply-accumulates, ${number(one.parameters)} parameters`];
  yield ["where", one.delegate === null ? "not delegated" : `delegate ${one.delegate}`];
  if (one.reasons.length) yield ["reasons", list(one.reasons.map((r) => `${r.code}: ${r.sentence} (found ${r.found})`))];
  if (one.cause !== null) {
    const cause = backend().causes[one.cause];
    const link = element("a", `${one.cause + 1}. ${cause.label || cause.code}`);
    link.href = `#cause-${shown}-${one.cause + 1}`;
    yield ["cause", link, `: ${cause.code}: ${cause.sentence}`];
    if (cause.change && cause.change.operator === one.name) yield ["what if", cause.change.text];
    if (cause.hint) yield ["hint", cause.hint];
  }
  const layer = backend().layers.find((each) => each.operators.includes(one.name));
  if (layer) {
    if (layer.effect !== null) yield ["at results", `${layer.effect.toFixed(1)} dB`];
    yield ["own error", layer.infinite ? "infinite" : layer.own === null ? "none" : `${layer.own.toFixed(1)} dB`];
    if (layer.apart !== null) yield ["device", layer.apart ? `up to ${layer.apart} codes from torch` : "as torch"];
    if (layer.cures.length) yield ["cures", list(layer.cures)];
  }
}

function choose(place, follow) {
  const one = backend().operators[place];
  if (!one) return;
  section().querySelectorAll(".selected").forEach((each) => each.classList.remove("selected"));
  node(place).classList.add("selected");
  state[shown].chosen = place;
  history.replaceState(null, "", `#operator-${shown}-${place}`);
  const told = element("dl");
  for (const [name, ...parts] of facts(one)) {
    const value = element("dd");
    value.append(...parts);
    told.append(element("dt", name), value);
  }
  const details = section().querySelector(".details");
  details.replaceChildren(element("h3", one.operator), element("code", one.name), told);
  details.classList.add("filled");
  if (follow) centre(place);
}

function centre(place) {
  const box = graph();
  box.scrollIntoView({ block: narrow.matches ? "start" : "nearest" });
  const at = node(place).getBoundingClientRect(), frame = box.getBoundingClientRect();
  box.scrollLeft += at.left + at.width / 2 - frame.left - frame.width / 2;
  box.scrollTop += at.top + at.height / 2 - frame.top - frame.height / 2;
}

// ---------------------------------------------------------------- zoom and backends

function zoom(factor) {
  if (!section().querySelector(".graph")) return;
  const box = graph(), svg = box.querySelector("svg"), base = svg.viewBox.baseVal;
  const x = (box.scrollLeft + box.clientWidth / 2) / svg.clientWidth;
  const y = (box.scrollTop + box.clientHeight / 2) / svg.clientHeight;
  const whole = Math.min(box.clientWidth / base.width, box.clientHeight / base.height, 1);
  const next = factor === 0 ? whole : Math.min(Math.max(state[shown].zoom * factor, Math.min(whole, 0.1)), 4);
  state[shown].zoom = next;
  svg.setAttribute("width", base.width * next);
  svg.setAttribute("height", base.height * next);
  box.scrollLeft = x * svg.clientWidth - box.clientWidth / 2;
  box.scrollTop = y * svg.clientHeight - box.clientHeight / 2;
}

function follow() {
  const target = document.getElementById(location.hash.slice(1));
  const own = target && target.closest("section[data-backend]");
  if (!own) return;
  show(Number(own.dataset.backend));
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  if (target.dataset.place) choose(Number(target.dataset.place), true);
  else target.querySelector("summary").focus();
  target.scrollIntoView({ block: "nearest" });
}

function show(number) {
  shown = number;
  sections.forEach((each, place) => { each.hidden = place !== number; });
  document.querySelector(`input[name=backend][value="${number}"]`).checked = true;
  seek();
}

// ---------------------------------------------------------------- search

function text(one) {
  const reasons = one.reasons.map((each) => `${each.code} ${each.sentence}`);
  return [one.name, one.operator, one.module, one.kind, one.source, one.code, one.dtype, ...reasons].join(" ").toLowerCase();
}

function seek() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const operators = backend().operators;
  const asked = words.length > 0 || left.checked;
  const fits = (one) => words.every((word) => text(one).includes(word)) && !(left.checked && one.delegate !== null);
  const found = asked ? operators.flatMap((one, place) => (fits(one) ? [place] : [])) : [];
  state[shown].found = found;
  matches.textContent = asked ? `${found.length} of ${operators.length} operators` : "";
  section().classList.toggle("searching", asked);
  const wanted = new Set(found);
  section().querySelectorAll(".op").forEach((each) => each.classList.toggle("found", wanted.has(Number(each.dataset.place))));
  section().querySelectorAll(".tree li[data-place]").forEach((each) => {
    each.hidden = asked && !wanted.has(Number(each.dataset.place));
  });
  if (!asked) return;
  section().querySelectorAll(".tree details").forEach((each) => {
    each.open = each.querySelector("li[data-place]:not([hidden])") !== null;
  });
}

function next() {
  const { found, chosen } = state[shown];
  if (found.length) choose(found.find((place) => chosen === null || place > chosen) ?? found[0], true);
}

// ---------------------------------------------------------------- keys and clicks

function beside(key) {
  const operators = backend().operators, chosen = state[shown].chosen;
  if (chosen === null) return 0;
  const place = (name) => operators.findIndex((each) => each.name === name);
  if (key === "ArrowLeft") return Math.max(chosen - 1, 0);
  if (key === "ArrowRight") return Math.min(chosen + 1, operators.length - 1);
  if (key === "ArrowUp") return operators[chosen].inputs.map(place).find((each) => each >= 0) ?? chosen;
  const user = operators.findIndex((each) => each.inputs.includes(operators[chosen].name));
  return user < 0 ? chosen : user;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === search;
  if (event.key === "Escape" && search.value) { search.value = ""; seek(); }
  else if (typing && event.key === "Enter") next();
  else if (typing || ["radio", "checkbox"].includes(event.target.type)) return;
  else if (event.key === "/") search.focus();
  else if (event.key === "+") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") zoom(0);
  else if (event.key.startsWith("Arrow") && event.target.classList.contains("graph")) choose(beside(event.key), true);
  else return;
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  const hit = event.target.closest(".op, .go");
  if (hit) choose(Number(hit.dataset.place), hit.classList.contains("go"));
});
document.querySelectorAll(".graph").forEach((box) => {
  let grip = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) grip = { x: event.clientX, y: event.clientY };
  });
  window.addEventListener("pointerup", () => { grip = null; });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    box.scrollBy(grip.x - event.clientX, grip.y - event.clientY);
    grip = { x: event.clientX, y: event.clientY };
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8);
  }, { passive: false });
});
document.querySelectorAll("input[name=backend]").forEach((each) => each.addEventListener("change", () => show(Number(each.value))));
search.addEventListener("input", seek);
left.addEventListener("change", seek);
window.addEventListener("hashchange", follow);
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((each) => { each.open = true; });
});
window.addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
document.getElementById("in").addEventListener("click", () => zoom(1.25));
document.getElementById("out").addEventListener("click", () => zoom(0.8));
document.getElementById("fit").addEventListener("click", () => zoom(0));
show(0);
follow();
