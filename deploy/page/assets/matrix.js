// Who is like whom, and who learned from whom.
const unpack = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const asSimilarity = (code) => (code ? (code - 1) / 127 - 1 : null);
// Weights of a row add up to one, which bytes alone, coarse for large ones, would miss.
const asWeights = (codes) => {
  const weights = [...codes].map((code) => (code ? ((code - 1) / 254) ** 2 : null));
  const sum = weights.reduce((total, one) => total + one, 0);
  return weights.map((one) => (one === null ? null : one / (sum || 1)));
};
const triangle = (i, j, count) => { if (i > j) [i, j] = [j, i]; return i * count - (i * (i + 1)) / 2 + j - i - 1; };

const rgb = (name) => {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = color(name); probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
};

const VALUES_UNTIL = 12; // institutions: a similarity is written into its cell
const WEIGHTS_SHOWN = 12; // the largest; the others are added up

const setupMatrix = () => {
  const host = byId("matrix"), section = host.closest("section");
  const slider = roundSlider();
  const canvas = el("canvas", { role: "img" });
  const labels = el("div", { class: "labels", "aria-hidden": "true" });
  const band = el("div", { class: "band", "aria-hidden": "true" });
  const values = el("div", { class: "values", "aria-hidden": "true" });
  const cells = el("div", { class: "cells" }, canvas, values, band);
  const grid = el("div", { class: "matrix" }, labels, cells);
  const readout = el("p", { class: "readout" });
  const scale = el("span", { class: "scale" }), low = el("span"), high = el("span"), title = el("h3");
  const pick = el("select", { onchange: () => { chosen.from = Number(pick.value); refresh(); } });
  pick._value = () => chosen.from;
  const shares = el("div");
  const left = el("div", {}, title, el("p", { class: "key", "aria-hidden": "true" }, el("span", {}, low, scale, high),
    el("span", {}, "rows and columns in the same order, similar ones together")), grid, readout);
  host.append(el("div", { class: "controls" }, slider.node), el("div", { class: "pair wide-left" }, left,
    el("div", {}, el("h3", {}, "Who learned from whom"),
      el("div", { class: "controls" }, el("label", {}, "Model of ", pick)), shares)));
  let now = null, row = [];
  const allWeights = tableBehind(shares.parentElement, "Table of all weights", () => scrolling("table of all weights",
    table(`Weights α in round ${now?.round ?? data.strongest.round}`, ["institution", "weight", "similarity"].map((title) => ({ title })),
      row.filter((one) => one.weight !== null).sort((a, b) => b.weight - a.weight)
        .map((one) => [shortName(data.institutions[one.other].name), percent(one.weight), decimals(one.similarity, 2)]))));
  const value = (i, j) => (i === j ? 1 : asSimilarity(now.similarity[triangle(i, j, now.count)]));
  const behind = tableBehind(left, "Table of the similarities", () => scrolling("table of the similarities",
    table(`Round ${now.round}`, [{ title: "institution" }, ...data.institutions.map((one) => ({ title: shortName(one.name) }))],
      data.institutions.map((one, i) => [shortName(one.name), ...data.institutions.map((_, j) => decimals(value(i, j), 2))]))));

  const paint = (view) => {
    const count = view.institutions.length, from = rgb("paper"), to = rgb("accent"), none = rgb("panel");
    const { low: least, high: most } = view.matrices, width = Math.max(most - least, 1e-6);
    canvas.width = canvas.height = count;
    const context = canvas.getContext("2d"), image = context.createImageData(count, count);
    for (let i = 0; i < count; i += 1) for (let j = 0; j < count; j += 1) {
      const found = value(i, j);
      const share = found === null ? null : Math.min(1, Math.max(0, (found - least) / width));
      const mixed = share === null ? none : from.map((c, k) => c + (to[k] - c) * share);
      image.data.set([...mixed, 255], 4 * (i * count + j));
    }
    context.putImageData(image, 0, 0);
    const dark = (i, j) => { const found = value(i, j); return found !== null && (found - least) / width > 0.5; };
    fill(values, count > VALUES_UNTIL ? [] : view.institutions.flatMap((_, i) => view.institutions.map((_, j) =>
      el("span", { class: dark(i, j) ? "dark" : null }, decimals(value(i, j), 2)))));
    canvas.setAttribute("aria-label", `Similarity of ${plural(count, "institution")} in round ${now.round}, from ${least.toFixed(2)} to ${most.toFixed(2)}; similar ones stand together. The table below has the numbers.`);
  };

  const place = (view) => {
    const count = view.institutions.length;
    cells.style.maxWidth = `${Math.max(count * 76, 220)}px`;
    const size = cells.clientWidth / count;
    grid.style.setProperty("--count", count);
    labels.hidden = size < 8.5;
    fill(labels, view.institutions.map((one, index) => el("span", { title: one.name, class: index === chosen.from ? "chosen" : null }, shortened(one.name))));
    band.style.top = `${(100 * chosen.from) / count}%`;
    band.style.height = `${100 / count}%`;
    band.style.borderWidth = size < 12 ? "1px" : "2px";
  };

  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect(), count = data.institutions.length;
    const j = Math.floor(((event.clientX - box.left) / box.width) * count), i = Math.floor(((event.clientY - box.top) / box.height) * count);
    return i >= 0 && j >= 0 && i < count && j < count ? [i, j] : null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const at = cellAt(event);
    if (!at || !now) return;
    fill(readout, shortName(data.institutions[at[0]].name), " and ", shortName(data.institutions[at[1]].name), ": ", decimals(value(...at), 2));
  });
  canvas.addEventListener("mouseleave", () => fill(readout));
  canvas.addEventListener("click", (event) => { const at = cellAt(event); if (at) { chosen.from = at[0]; refresh(); } });
  // Also when the page is printed, and when a scroll bar appears.
  new ResizeObserver(() => { if (data?.matrices) place(data); }).observe(grid);

  onChoice((view) => {
    const some = Boolean(view.matrices || view.strongest);
    section.querySelector(".absent").hidden = some;
    host.hidden = !some;
    if (!some) return;
    if (chosen.from >= view.institutions.length) chosen.from = 0;
    fillInstitutions(pick, view, null);
    left.hidden = slider.node.hidden = !view.matrices;
    if (!view.matrices) {
      row = view.strongest.weights[chosen.from].map(([other, weight]) => ({ other, weight }));
      fill(shares, weightTable(view, row, view.strongest.round));
      allWeights();
      return;
    }
    const index = slider.update(view.matrices.rounds);
    now = { count: view.institutions.length, round: view.matrices.rounds[index], similarity: unpack(view.matrices.similarity[index]) };
    low.textContent = decimals(view.matrices.low, 2); high.textContent = `${decimals(view.matrices.high, 2)}, similar`;
    scale.style.background = `linear-gradient(90deg, ${color("paper")}, ${color("accent")})`;
    title.textContent = `Similarity in round ${now.round}`;
    place(view); paint(view); behind();
    const first = chosen.from * now.count;
    const weights = asWeights(unpack(view.matrices.weights[index]).subarray(first, first + now.count));
    row = weights.map((weight, other) => ({ other, weight, similarity: value(chosen.from, other) }));
    fill(shares, weightTable(view, row, now.round));
    allWeights();
  });
};

const weightTable = (view, row, round) => {
  const rows = row.filter((one) => one.weight !== null).sort((a, b) => b.weight - a.weight);
  const caption = el("caption", {}, `Weights α in the model that `, shortName(view.institutions[chosen.from].name), ` was sent after round ${round}`);
  if (!rows.length) return el("p", { class: "quiet" }, `No weights are known of round ${round}.`);
  const largest = Math.max(...rows.map((one) => one.weight));
  const rest = rows.slice(WEIGHTS_SHOWN), together = rest.reduce((sum, one) => sum + one.weight, 0);
  const compared = rows[0].similarity !== undefined;
  return el("table", {}, caption,
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "institution"), el("th", { scope: "col" }, "weight"),
      el("td", {}), compared ? el("th", { scope: "col" }, "similarity") : null)),
    el("tbody", {}, rows.slice(0, WEIGHTS_SHOWN).map((one) => el("tr", {},
      el("th", { scope: "row" }, shortName(view.institutions[one.other].name), one.other === chosen.from ? el("span", { class: "quiet" }, " itself") : null),
      el("td", {}, percent(one.weight)),
      el("td", { class: "share" }, el("div", { class: one.other === chosen.from ? "own" : null, style: { width: `${(100 * one.weight) / largest}%` } })),
      compared ? el("td", {}, decimals(one.similarity, 2)) : null)),
    rest.length ? el("tr", {}, el("th", { scope: "row", class: "quiet" }, plural(rest.length, "other")), el("td", {}, percent(together)), el("td", {}), compared ? el("td", {}) : null) : null));
};
setupMatrix();
