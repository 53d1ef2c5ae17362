// Validation and test over the rounds.
const setupCurves = () => {
  const host = byId("curves");
  const pick = el("select", { onchange: () => { chosen.institution = Number(pick.value); refresh(); } });
  const slider = roundSlider();
  const panels = ["val", "test"].map((split) => ({
    split, host: el("div", { class: "chart" }), note: el("p", { class: "quiet" }),
    title: split === "val" ? "Validation accuracy" : "Test accuracy" }));
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  host.append(
    el("div", { class: "controls" }, el("label", {}, "Highlight ", pick), slider.node),
    el("p", { class: "key", "aria-hidden": "true" }, el("span", {}, el("i", { class: "line" }), "mean"),
      el("span", {}, el("i", { class: "line all" }), "each institution"),
      el("span", {}, el("i", { class: "line one" }), "highlighted"),
      el("span", {}, el("i", { class: "line best" }), "best round")),
    el("div", { class: "pair" }, panels.map((panel) => el("div", {}, el("h3", {}, panel.title), panel.note, panel.host))),
    readout);
  const behind = tableBehind(host, "Table of the curves", () => {
    const at = chosen.institution, own = data.by_institution;
    const name = at >= 0 ? data.institutions[at].name : null;
    const columns = [{ title: "round" }, { title: "validation" }, { title: "test" }, { title: "answered" }, { title: "seconds" },
      ...(name ? [{ title: fullName(`${name}, validation`) }, { title: fullName(`${name}, test`) }] : [])];
    return scrolling("table of the curves", table("Means over institutions", columns, data.curves.rounds.map((round, index) => {
      const there = own.rounds.indexOf(round);
      const mine = name ? [own.val, own.test].map((all) => there < 0 ? "" : percent(scaledDown(all[at][there]), "–")) : [];
      return [String(round), percent(scaledDown(data.curves.val[index]), "–"), percent(scaledDown(data.curves.test[index]), "–"),
        String(data.curves.answered[index]), decimals(data.curves.seconds[index], 2), ...mine];
    })));
  });
  onChoice((view) => {
    fillInstitutions(pick, view, "none");
    slider.update(view.curves.rounds);
    for (const panel of panels) drawPanel(panel, view);
    fill(readout, readoutText(view));
    behind();
  });
};

const scaledDown = (value) => (known(value) ? value / 10000 : null);

const fillInstitutions = (pick, view, none) => {
  const wanted = view.institutions.map((one) => one.name);
  if (pick._names && JSON.stringify(pick._names) === JSON.stringify(wanted)) { pick.value = String(pick._value()); return; }
  pick._names = wanted;
  pick._value = pick._value || (() => chosen.institution);
  const order = wanted.map((name, index) => [name, index]).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  fill(pick, none ? el("option", { value: "-1" }, none) : null,
    order.map(([name, index]) => el("option", { value: String(index) }, shortened(name, 60))));
  pick.value = String(pick._value());
};

const drawPanel = (panel, view) => {
  const means = view.curves[panel.split], own = view.by_institution;
  const shared = means.some(known);
  panel.note.textContent = shared ? "" : `No institution shared its ${panel.title.toLowerCase()}.`;
  panel.note.hidden = shared;
  panel.host.hidden = !shared;
  if (!shared) return;
  const xs = view.curves.rounds;
  const thin = own.rounds.length !== xs.length;
  const place = new Map(own.rounds.map((round, index) => [round, index]));
  const spread = (values) => xs.map((round) => { const at = place.get(round); return at === undefined ? null : scaledDown(values[at]); });
  const at = chosen.institution;
  const lines = own[panel.split].map((values) => ({ values: spread(values), kind: "all" }));
  lines.push({ values: means.map(scaledDown), kind: "mean" });
  if (at >= 0) lines.push({ values: spread(own[panel.split][at]), kind: "one" });
  drawCurves(panel.host, {
    xs, lines, gaps: !thin, top: 1, format: (value) => `${(100 * value).toFixed(0)} %`,
    range: sharedRange(view), label: `${panel.title} over ${plural(xs.length, "round")}; the table below has the numbers`,
    marks: [{ x: view.best_round, text: `best ${view.best_round}`, dashed: true },
      ...(chosen.round !== null && chosen.round !== xs[xs.length - 1] ? [{ x: chosen.round }] : [])],
  });
};

// Both panels have one scale, so that they can be compared.
const sharedRange = (view) => {
  const values = ["val", "test"].flatMap((split) => [view.curves[split], ...view.by_institution[split]]).flat().filter(known);
  return [values.reduce((a, b) => Math.min(a, b), 10000) / 10000, values.reduce((a, b) => Math.max(a, b), 0) / 10000];
};

const readoutText = (view) => {
  const rounds = view.curves.rounds;
  if (!rounds.length) return "";
  const index = chosen.round === null ? rounds.length - 1 : Math.max(0, rounds.findIndex((round) => round >= chosen.round));
  const at = chosen.institution, own = view.by_institution, there = own.rounds.indexOf(rounds[index]);
  const mean = `Round ${rounds[index]}: mean validation ${percent(scaledDown(view.curves.val[index]))}, test ${percent(scaledDown(view.curves.test[index]))}, ${plural(view.curves.answered[index], "answer")}.`;
  if (at < 0 || there < 0) return mean;
  return [mean, " ", shortName(view.institutions[at].name),
    `: validation ${percent(scaledDown(own.val[at][there]), "–")}, test ${percent(scaledDown(own.test[at][there]), "–")}.`];
};
setupCurves();
