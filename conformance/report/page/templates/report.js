"use strict";
// The list of cases: search, filters that the address names, and what a case shows when it is opened.
const CHUNK = 100, PRINTED = 1000;
const PLACES = ["name", "whole", "operator", "precision", "constraint", "side", "promise", "status", "finding", "since",
  "program", "subject", "verdict", "mute", "partitions", "digests", "ran", "metrics", "reasons", "failures", "elements", "shapes"];
const NAMED = new Set(["name", "operator", "precision", "constraint", "side", "promise", "status", "since", "subject", "verdict", "digests", "ran"]);
const FILTERS = ["status", "operator", "precision", "constraint", "side", "check", "since"];
const by = (id) => document.getElementById(id);
let data, cases, shown = [], listed = 0, only = {};

// ---------------------------------------------------------------- data

function unpacked(texts) {
  const alike = (text) => (typeof text[0] === "number" ? texts[text[0]][0] : text[0]);
  return texts.map((text) => {
    if (typeof text === "string") return text;
    const numbers = text[1].split(" ");
    return alike(text).split("#").map((part, at) => part + (numbers[at] ?? "")).join("");
  });
}

function read(packed) {
  const one = {};
  PLACES.forEach((key, at) => { one[key] = NAMED.has(key) ? data.texts[packed[at]] : packed[at] ?? []; });
  const parts = [one.operator, one.precision, one.constraint, one.side, one.name].filter(Boolean);
  one.id = one.whole ? one.name : parts.join("/");
  one.check = [...new Set(one.failures.map((failure) => data.texts[failure[0]]))];
  return one;
}

function sought(one) {
  one.text ??= [one.id, one.status, one.verdict, one.promise, one.since,
    ...one.failures.flat().map((each) => data.texts[each]), ...one.reasons.map((each) => data.texts[each]),
    ...operators(one)].join(" ").toLowerCase();
  return one.text;
}

function operators(one) {
  return one.program < 0 ? [] : data.programs[one.program][1].map((step) => data.texts[data.steps[step][1]]);
}

function rule(operator, constraint) {
  const found = data.rules.find((each) => data.texts[each[0]] === operator && data.texts[each[1]] === constraint);
  return found ? data.texts[found[2]] : "";
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

// ---------------------------------------------------------------- pieces

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function list(tag, texts) {
  const made = element(tag);
  made.append(...texts.map((text) => element("li", text)));
  return made;
}

function table(caption, heads, rows, numbers = new Set()) {
  const made = element("table"), head = element("tr"), body = element("tbody"), top = element("thead");
  made.append(element("caption", caption), top, body);
  top.append(head);
  heads.forEach((text, at) => {
    const cell = element("th", text, numbers.has(at) ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  });
  for (const [cells, kind] of rows) {
    const row = element("tr", undefined, kind);
    cells.forEach((text, at) => {
      const cell = element(at ? "td" : "th", text, numbers.has(at) ? "number" : "");
      if (!at) cell.scope = "row";
      row.append(cell);
    });
    body.append(row);
  }
  return wide(made, caption);
}

function wide(inside, label) {
  const box = element("div", undefined, "wide");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  box.append(inside);
  return box;
}

function command(text) {
  const box = element("pre", undefined, "command"), button = element("button", "copy");
  button.type = "button";
  button.setAttribute("aria-label", "copy the command");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "copied" : "select and copy it";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });
  box.append(element("code", text), button);
  return box;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// ---------------------------------------------------------------- a program

function program(one) {
  const [values, steps, outputs] = data.programs[one.program], text = (at) => data.texts[at];
  const shapes = new Map(one.shapes.map(([name, shape]) => [text(name), text(shape)]));
  return {
    values: values.map((at) => data.values[at].map(text)),
    steps: steps.map((at) => {
      const [name, operator, takes, operands, quant] = data.steps[at];
      return { name: text(name), operator: text(operator), takes: text(takes), operands: operands.map(text), quant: text(quant), shape: shapes.get(text(name)) ?? "" };
    }),
    outputs: outputs.map(text),
  };
}

function programTable(made, one) {
  const values = made.values.map(([name, kind, shape, dtype, quant, numbers]) =>
    [[name, kind, numbers, shape, dtype, quant || "not quantized"], ""]);
  const steps = made.steps.map((step) =>
    [[step.name, step.operator, step.takes, step.shape, step.quant.split(" ")[0], step.quant.split(" ").slice(1).join(" ") || "not quantized"],
      step.name === one.subject ? "subject" : ""]);
  const returned = [["returns", "", made.outputs.join(", "), "", "", ""], ""];
  const whole = table("Operators, shapes, types and quantization", ["name", "what", "takes", "shape", "type", "quantization"], [...values, ...steps, returned]);
  whole.classList.add("program");
  return whole;
}

const BOX = { width: 172, height: 40, gap: 16, rank: 26 };

function drawing(made, one) {
  const ranks = new Map(), rows = [];
  const place = (name, rank, node) => {
    ranks.set(name, rank);
    (rows[rank] ??= []).push(node);
    node.at = [rows[rank].length - 1, rank];
  };
  const nodes = new Map();
  for (const step of made.steps) {
    for (const name of step.operands.filter((each) => !ranks.has(each))) {
      const value = made.values.find((each) => each[0] === name);
      const node = { title: `${name} (${value?.[1] ?? ""})`, size: value ? `${value[2]} ${value[3]}` : "", kind: "value", from: [] };
      nodes.set(name, node);
      place(name, 0, node);
    }
    const title = step.operator.replace(/^aten\./, "");
    const node = { title, size: [step.shape, step.quant.split(" ")[0]].filter(Boolean).join(" "), kind: step.name === one.subject ? "step subject" : "step", from: step.operands };
    nodes.set(step.name, node);
    place(step.name, 1 + Math.max(0, ...step.operands.map((each) => ranks.get(each))), node);
  }
  const most = Math.max(1, ...rows.map((row) => row?.length ?? 0));
  const width = most * (BOX.width + BOX.gap), height = rows.length * (BOX.height + BOX.rank);
  const middle = (node) => [(node.at[0] + 0.5 + (most - rows[node.at[1]].length) / 2) * (BOX.width + BOX.gap), node.at[1] * (BOX.height + BOX.rank) + 2];
  const drawn = svg("svg", { class: "drawn", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Program: ${made.steps.map((step) => step.operator).join(", ")}` });
  for (const node of nodes.values()) {
    const [x, y] = middle(node);
    for (const name of node.from) {
      const [a, b] = middle(nodes.get(name));
      drawn.append(svg("path", { d: `M${a},${b + BOX.height} C${a},${b + BOX.height + BOX.rank} ${x},${y - BOX.rank} ${x},${y}` }));
    }
  }
  for (const node of nodes.values()) {
    const [x, y] = middle(node), group = svg("g", { class: node.kind });
    group.append(svg("rect", { x: x - BOX.width / 2, y, width: BOX.width, height: BOX.height, rx: node.kind === "value" ? 18 : 4 }));
    const name = svg("text", { x, y: y + 17 }), size = svg("text", { x, y: y + 33, class: "size" });
    name.textContent = short(node.title);
    size.textContent = short(node.size);
    group.append(name, size);
    drawn.append(group);
  }
  return wide(drawn, "Drawing of the program");
}

function short(text) {
  return text.length > 26 ? `${text.slice(0, 25)}\u2026` : text;
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  return made;
}

// ---------------------------------------------------------------- a case

function* body(one) {
  yield element("p", `${data.sides[one.side] ?? one.side}; the table promises: ${one.promise}; the backend: ${one.verdict}.`);
  const words = rule(one.operator, one.constraint);
  if (words) yield element("p", `Rule ${one.constraint}: ${words}.`);
  if (one.since) yield element("p", `Since the earlier run: ${one.since}.`);
  yield command(data.again.join(` -k ${quoted(one.id)} `));
  yield* failed(one);
  const reasons = [];
  for (let at = 0; at < one.reasons.length; at += 3) reasons.push(one.reasons.slice(at, at + 3).map((each) => data.texts[each]));
  if (reasons.length) yield element("h4", "Reasons of the rejection");
  if (reasons.length) yield list("ul", reasons.map(([code, found, sentence]) => `${code}: found ${found}, but ${sentence}`));
  if (one.program >= 0) {
    const made = program(one);
    yield element("h4", "Program");
    yield drawing(made, one);
    yield programTable(made, one);
  }
  yield* measured(one);
}

function* failed(one) {
  if (one.failures.length) yield element("h4", "Failures");
  for (const [check, message, ...trace] of one.failures.map((each) => each.map((at) => data.texts[at]))) {
    const told = element("p");
    told.append(element("code", check), ` ${message}`);
    if (data.checks[check]) told.append(element("span", ` (${data.checks[check]})`, "quiet"));
    yield told;
    if (!trace.length) continue;
    yield element("p", "Traceback of the backend, innermost call last:", "quiet");
    const frames = element("pre", trace.join("\n"), "trace");
    yield frames;
  }
  if (!one.elements.length) return;
  const names = [...new Set(one.elements.flatMap((each) => each.slice(7).filter((_, at) => at % 2 === 0)))];
  const rows = one.elements.map(([place, found, expected, allowed, real, golden, bound, ...inputs]) => {
    const given = names.map((name) => { const at = inputs.findIndex((each, n) => n % 2 === 0 && each === name); const n = inputs[at + 1]; return at < 0 ? "" : Array.isArray(n) ? data.texts[n[0]] : n; });
    const known = found !== null;
    return [[data.texts[place], ...given, known ? found : real, known ? expected : "", known ? `\u00b1 ${allowed}` : "", real, `${golden} \u00b1 ${bound}`], ""];
  });
  const heads = ["element", ...names.map((name) => data.texts[name]), "actual", "expected", "allowed", "actual, real", "float golden \u00b1 bound"];
  yield element("h4", "Elements that are furthest off");
  yield element("p", "Codes where the output is quantized, else numbers. Of inputs and constants: the one element that it is computed from, or the slice of those that count.", "quiet");
  yield table("Actual and expected", heads, rows, new Set(heads.keys()));
}

function* measured(one) {
  const metrics = one.metrics.flatMap((value, at) => (value === null ? [] : [[[data.metrics[at], String(value)], ""]]));
  if (metrics.length) {
    yield element("h4", "Measured");
    yield table("Gates", ["metric", "value"], metrics, new Set([1]));
  }
  const [digest, ...blobs] = one.digests.split(" ");
  const told = [`checks that ran: ${one.ran || "none"}`, `partitions: ${one.partitions}`, `program ${digest}${blobs.length ? `, blobs ${blobs.join(", ")}` : ""}`];
  yield element("p", `${told.join("; ")}.`, "quiet");
}

function item(one) {
  const made = element("li"), details = element("details", undefined, "case"), summary = element("summary");
  details.dataset.case = one.id;
  summary.append(element("span", one.status, `status ${one.status}`), element("code", one.id));
  if (one.failures.length) summary.append(element("span", data.texts[one.failures[0][1]], "said"));
  details.append(summary);
  details.fill = () => {
    if (details.querySelector(".body")) return;
    const box = element("div", undefined, "body");
    box.append(...body(one));
    details.append(box);
  };
  made.append(details);
  return made;
}

// ---------------------------------------------------------------- search and filters

function asked() {
  const chosen = { ...only };
  const words = by("search").value.trim();
  if (words) chosen.q = words;
  for (const select of by("filters").querySelectorAll("select")) if (select.value) chosen[select.name] = select.value;
  return chosen;
}

function fits(one, chosen, words) {
  for (const [key, value] of Object.entries(chosen)) {
    if (key === "q") continue;
    if (key === "case" ? one.id !== value : key === "check" ? !one.check.includes(value) : String(one[key]) !== value) return false;
  }
  return words.every((word) => sought(one).includes(word));
}

function seek() {
  const chosen = asked(), words = (chosen.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  shown = cases.filter((one) => fits(one, chosen, words));
  listed = 0;
  by("list").replaceChildren();
  more();
  const extra = [only.finding && `of finding ${only.finding}`, only.case && "one case"].filter(Boolean).join(", ");
  by("matches").textContent = `${shown.length} of ${cases.length} cases${extra ? ` (${extra}; clear shows all)` : ""}`;
  const words_ = chosen.constraint && rule(chosen.operator ?? "", chosen.constraint);
  by("rule").textContent = words_ ? `Rule ${chosen.constraint} of ${chosen.operator}: ${words_}.` : "";
  by("rule").hidden = !words_;
  return chosen;
}

function more(count = CHUNK) {
  by("list").append(...shown.slice(listed, listed + count).map(item));
  listed = Math.min(shown.length, listed + count);
  by("more").hidden = listed >= shown.length;
  by("more").textContent = `show more (${shown.length - listed} left)`;
}

function changed() {
  const params = new URLSearchParams(seek());
  history.replaceState(null, "", `#cases?${params}`);
}

function options() {
  for (const name of FILTERS) {
    const counts = new Map(), label = document.querySelector(`[data-filter=${name}]`), select = label.querySelector("select");
    for (const one of cases) for (const value of name === "check" ? one.check : [one[name]]) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
    label.hidden = counts.size === 0;
    const names = name === "status" ? [...counts.keys()] : [...counts.keys()].sort();
    select.append(new Option("all", ""), ...names.map((each) => new Option(`${each} (${counts.get(each)})`, each)));
  }
}

function follow() {
  const hash = location.hash;
  if (hash.startsWith("#cases?")) {
    const params = new URLSearchParams(hash.slice("#cases?".length));
    by("search").value = params.get("q") ?? "";
    for (const select of by("filters").querySelectorAll("select")) select.value = params.get(select.name) ?? "";
    only = Object.fromEntries(["finding", "case"].filter((key) => params.has(key)).map((key) => [key, params.get(key)]));
    seek();
    const first = by("list").querySelector("details");
    if (only.case && first) open(first);
    by("cases").scrollIntoView();
    (only.case && first ? first.querySelector("summary") : by("matches")).focus({ preventScroll: true });
  } else if (hash.length > 1) {
    const target = by(decodeURIComponent(hash.slice(1)));
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    target?.querySelectorAll(":scope > details").forEach((each) => { each.open = true; });
    target?.scrollIntoView();
  }
}

function open(details) {
  details.fill();
  details.open = true;
}

// ---------------------------------------------------------------- keys

function beside(summary, step) {
  const all = [...by("list").querySelectorAll("summary")], next = all.indexOf(summary) + step;
  if (next === all.length && listed < shown.length) more();
  (by("list").querySelectorAll("summary")[next] ?? summary).focus();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target, summary = at.closest?.("#list summary");
  if (at === by("search") && event.key === "Enter") by("list").querySelector("summary")?.focus();
  else if (at === by("search") && event.key === "Escape") { at.value = ""; changed(); }
  else if (summary && event.key === "ArrowDown") beside(summary, 1);
  else if (summary && event.key === "ArrowUp") beside(summary, -1);
  else if (at.closest?.("#list") && event.key === "Escape") by("search").focus();
  else if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) by("search").focus();
  else return;
  event.preventDefault();
}

// ---------------------------------------------------------------- start

let closed = [];

function start() {
  data = JSON.parse(by("data").textContent);
  data.texts = unpacked(data.texts);
  cases = data.cases.map(read);
  by("matches").tabIndex = -1;
  by("filters").hidden = false;
  options();
  seek();
  document.querySelectorAll("article pre.command").forEach((each) => each.replaceWith(command(each.textContent)));
  by("search").addEventListener("input", changed);
  by("filters").querySelectorAll("select").forEach((each) => each.addEventListener("change", changed));
  by("filters").addEventListener("submit", (event) => event.preventDefault());
  by("filters").addEventListener("reset", () => { only = {}; setTimeout(changed); });
  by("list").addEventListener("toggle", (event) => { if (event.target.open) event.target.fill?.(); }, true);
  by("more").addEventListener("click", () => {
    const next = listed;
    more();
    by("list").children[next]?.querySelector("summary").focus();
  });
  document.addEventListener("keydown", key);
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", () => {
    more(Math.max(0, Math.min(shown.length, PRINTED) - listed));
    closed = [...document.querySelectorAll("details:not([open])")].filter((each) => !each.matches(".case") || each.querySelector(".status:not(.pass):not(.unspecified)"));
    closed.forEach((each) => { if (each.fill) each.fill(); each.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
  if (location.hash) follow();
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
}

requestAnimationFrame(() => setTimeout(start));
