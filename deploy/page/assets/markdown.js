// The Markdown of a model card as elements: headings, tables, lists, paragraphs; all of it text.
const plainText = (text) => text.replace(/\*\*|`/g, "").replace(/\\([\\|*_`[\]<>#])/g, "$1");
const cellsOf = (line) => line.replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => plainText(cell.trim()));
const cardTable = (lines) => {
  const [head, , ...rows] = lines.map(cellsOf);
  const named = head.some(Boolean);
  return scrolling("table of the model card", el("table", {},
    named ? el("thead", {}, el("tr", {}, head.map((title) => title ? el("th", { scope: "col" }, title) : el("td", {})))) : null,
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) => at ? el("td", {}, cell) : el("th", { scope: "row" }, cell)))))));
};
const markdown = (text) => text.trim().split(/\n{2,}/).map((block) => {
  const lines = block.split("\n");
  if (block.startsWith("#")) return el("h3", {}, plainText(block.replace(/^#+ /, "")));
  if (block.startsWith("|")) return cardTable(lines);
  if (block.startsWith("- ")) return el("ul", {}, lines.map((line) => el("li", {}, plainText(line.slice(2)))));
  return el("p", {}, plainText(lines.join(" ")));
});
