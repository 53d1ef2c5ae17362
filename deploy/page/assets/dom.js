// Elements from data. Text is only ever set as text: names come from other parties.
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "style") Object.assign(node.style, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
};
const byId = (id) => document.getElementById(id);
const fill = (node, ...children) => node.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined));
// Long names lose their middle: names of one federation often begin alike.
const shortened = (name, most = 22) => {
  const letters = [...name];
  const tail = Math.floor(most / 3);
  return letters.length <= most ? name : `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
};
const shortName = (name) => el("bdi", { class: "name", title: name }, shortened(name));
const fullName = (name) => el("bdi", { class: /^[!-~]{1,20}$/.test(name) ? "full unbroken" : "full" }, name);
const command = (text) => el("code", { class: "unbroken" }, text);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A table: columns are {title, text}, a row is an array of texts or nodes; the first is its header.
const table = (caption, columns, rows, attributes = {}) =>
  el("table", attributes,
    caption ? el("caption", {}, el("span", {}, caption)) : null,
    el("thead", {}, el("tr", {}, columns.map((column) =>
      el("th", { scope: "col", class: column.text ? "text" : null }, column.title)))),
    el("tbody", {}, rows.map((row) => el("tr", { class: row.total ? "total" : null },
      row.map((cell, index) => index === 0
        ? el("th", { scope: "row" }, cell)
        : el("td", { class: columns[index].text ? "text" : null }, cell))))));

// A large number with its title and a note.
const figure = (title, value, note, main) =>
  el("div", { class: main ? "figure main" : "figure" }, el("dt", {}, title),
    el("dd", { class: /\d/.test(value) ? null : "words" }, value, note ? el("small", {}, note) : null));

// A region that scrolls by itself must be reachable by keyboard.
const scrolling = (label, child) =>
  el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, child);

// The table behind a chart: built when it is opened, and again when the data changes.
const tableBehind = (host, title, build) => {
  const body = el("div");
  const box = el("details", {}, el("summary", {}, title), body);
  const show = () => { if (box.open) fill(body, build()); };
  box.addEventListener("toggle", show);
  host.append(box);
  return show;
};
