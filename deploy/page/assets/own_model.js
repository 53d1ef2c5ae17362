// An institution's own model: what it is worth, over the rounds, and on nodes it was not trained on.
const notJudged = (view) => el("p", { class: "quiet" }, `Not measured: ${view.why_not}.`);
const ownFigure = (view, title) => view.metrics.find((one) => one.title === title)?.test;

sections.push((view) => {
  const accuracy = ownFigure(view, "accuracy"), largest = ownFigure(view, "share of the largest class");
  byId("title").replaceChildren("The model of ", fullName(view.institution), known(accuracy) ? ` reaches ${percent(accuracy)} on test nodes` : "");
  document.title = `${view.institution}: ${view.run}`;
  fill(byId("meta"), el("li", {}, "federation ", fullName(view.federation)), el("li", {}, "run ", fullName(view.run)),
    el("li", {}, `method ${view.method_title}`), el("li", {}, `best round ${view.best_round} of ${view.planned}`),
    el("li", {}, plural(view.nodes, "node")), el("li", {}, plural(view.links, "link")),
    el("li", {}, plural(view.features, "feature")), el("li", {}, `started ${when(view.started)}`));
  const show = (value) => decimals(value, 3);
  fill(byId("model"),
    el("dl", { class: "figures" },
      figure("Test accuracy", percent(accuracy, "not measured"), known(largest) ? `always predicting the largest class: ${percent(largest)}` : null, true),
      figure("Balanced accuracy", percent(ownFigure(view, "balanced accuracy"), "–"), "mean recall over classes"),
      figure("Privacy spent", view.budget?.units.length ? `ε ${significant(Math.max(...view.budget.units.map(([, value]) => value)))}` : "–",
        view.budget?.limit ? `of ${significant(view.budget.limit)} allowed, over all runs` : "over all runs of this data; no limit is set")),
    view.warnings.map((text) => el("p", { class: "bad" }, capitalised(plainText(text)))),
    view.metrics.length ? scrolling("metrics", table("The model of the best round; 95 % intervals by resampling test nodes",
      ["metric", "validation", "test", "interval"].map((title) => ({ title })),
      view.metrics.map((one) => [one.title, show(one.val), show(one.test),
        one.interval ? `[${show(one.interval[0])}, ${show(one.interval[1])}]` : "–"]), { class: "narrow" })) : null);
});

const ownCurvePanels = (host, panels) => {
  const built = panels.map((panel) => ({ ...panel, host: el("div", { class: "chart" }) }));
  host.append(el("div", { class: "pair" }, built.map((panel) => el("div", {}, el("h3", {}, panel.title),
    panel.key ? el("p", { class: "key", "aria-hidden": "true" }, panel.key.map(([kind, text]) =>
      el("span", {}, el("i", { class: `line ${kind}` }), text))) : null, panel.host))));
  return built;
};

const setupOwnRounds = () => {
  const host = byId("rounds");
  const panels = ownCurvePanels(host, [
    { title: "Accuracy", key: [["", "test"], ["one", "validation"], ["best", "best round"]] },
    { title: "Training loss" }]);
  const behind = tableBehind(host, "Table of the curves", () => scrolling("table of the curves",
    table("Measured at this institution", ["round", "validation", "test", "loss"].map((title) => ({ title })), data.curves.rounds.map((round, at) =>
      [String(round), percent(data.curves.val[at], "–"), percent(data.curves.test[at], "–"), decimals(data.curves.loss[at])]))));
  sections.push((view) => {
    const { rounds, val, test, loss } = view.curves, marks = [{ x: view.best_round, text: `best ${view.best_round}`, dashed: true }];
    drawCurves(panels[0].host, { xs: rounds, marks, top: 1, format: (value) => `${Math.round(100 * value)} %`, label: "Accuracy over the rounds; the table below has the numbers",
      lines: [{ values: val, kind: "one" }, { values: test, kind: "mean" }] });
    drawCurves(panels[1].host, { xs: rounds, marks, format: significant, label: "Training loss over the rounds; the table below has the numbers",
      lines: [{ values: loss, kind: "one" }] });
    behind();
  });
};

sections.push((view) => {
  if (!view.judged) { fill(byId("confusion"), notJudged(view)); return; }
  const { confusion, split, nodes } = view.judged;
  const cell = (count, row) => {
    const share = count / Math.max(1, row.reduce((a, b) => a + b, 0));
    return el("td", { class: "cell", style: { background: `color-mix(in srgb, var(--accent) ${Math.round(45 * share)}%, transparent)` } },
      count.toLocaleString("en"), el("small", { class: "quiet" }, ` ${Math.round(100 * share)} %`));
  };
  fill(byId("confusion"), scrolling("confusion matrix", el("table", { class: "confusion" },
    el("caption", {}, `${plural(nodes, `${split} node`)}; rows: true class, columns: predicted class, with the share of the row`),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "true class"), view.classes.map((name) => el("th", { scope: "col" }, shortName(name))))),
    el("tbody", {}, confusion.map((row, at) => el("tr", {}, el("th", { scope: "row" }, shortName(view.classes[at])), row.map((count) => cell(count, row))))))));
});
