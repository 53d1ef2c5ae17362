// How sure the model is and at which threshold to act; what left and what it cost; the card.
const setupSure = () => {
  const host = byId("sure"), absent = el("div"), body = el("div");
  host.append(absent, body);
  const words = el("p");
  body.append(words);
  const panels = ownCurvePanels(body, [
    { title: "Reliability", key: [["one", "calibrated"], ["", "as trained"], ["all", "ideal"]] },
    { title: "Threshold", key: [["one", "precision"], ["", "recall"], ["all", "share of nodes flagged"]] }]);
  const behind = tableBehind(body, "Tables of both charts", () => {
    const { reliability: one, threshold: two } = data.judged;
    return el("div", {},
      scrolling("table of the reliability", table("Nodes by confidence, calibrated", ["confidence", "right", "nodes"].map((title) => ({ title })),
        one.confidence.map((value, at) => [percent(value), percent(one.right[at]), String(one.nodes[at])]))),
      two ? scrolling("table of the thresholds", table("Precision and recall by threshold", ["threshold", "precision", "recall", "nodes flagged"].map((title) => ({ title })),
        two.thresholds.map((value, at) => [value.toFixed(2), percent(two.precision[at], "–"), percent(two.recall[at], "–"), percent(two.alarms[at])]))) : null);
  });
  // The points of several curves at the places of all of them.
  const merged = (...curves) => {
    const xs = [...new Set(curves.flatMap((curve) => curve.confidence))].sort((a, b) => a - b);
    return [xs, ...curves.map((curve) => xs.map((x) => { const at = curve.confidence.indexOf(x); return at < 0 ? null : curve.right[at]; }))];
  };
  sections.push((view) => {
    body.hidden = !view.judged;
    fill(absent, view.judged ? null : notJudged(view));
    if (!view.judged) return;
    const { reliability: after, before, threshold } = view.judged;
    const [xs, calibrated, trained] = merged({ confidence: [0, 1], right: [null, null] }, after, before).filter((_, at) => at !== 1);
    fill(words, "Of the predictions with a confidence of 80 %, 80 % should be right: the closer to the ideal line, the better.",
      threshold ? [" Threshold: a node counts as ", shortName(threshold.positive), ` (${percent(threshold.share)} of the nodes) if its probability is at least the threshold; `,
        ...(known(threshold.chosen) ? [`${decimals(threshold.chosen, 2)} was chosen.`]
          : ["none was chosen. ", command("fedgt evaluate"), " with ", command("--recall"), " or ", command("--cost-ratio"), " chooses one."])] : "");
    const percents = (value) => `${Math.round(100 * value)} %`;
    drawCurves(panels[0].host, { xs, shares: true, xLabel: "confidence", top: 1, format: percents, label: "Share of right predictions over confidence; the table below has the numbers",
      lines: [{ values: xs, kind: "all" }, { values: trained, kind: "mean", dots: true }, { values: calibrated, kind: "one", dots: true }] });
    panels[1].host.parentElement.hidden = !threshold;
    if (threshold) drawCurves(panels[1].host, { xs: threshold.thresholds, shares: true, xLabel: "threshold", top: 1, format: percents,
      marks: known(threshold.chosen) ? [{ x: threshold.chosen, text: "chosen", dashed: true }] : [], label: "Precision, recall and share flagged over the threshold; the table below has the numbers",
      lines: [{ values: threshold.alarms, kind: "all" }, { values: threshold.recall, kind: "mean" }, { values: threshold.precision, kind: "one" }] });
    behind();
  });
};

const setupLeft = () => {
  const host = byId("left"), body = el("div"), chart = el("div", { class: "chart" }), curve = el("div", {}, el("h3", {}, "ε over the uploads"), chart);
  host.append(body, curve);
  const behind = tableBehind(curve, "Table of the budget", () => scrolling("table of the budget", table("The unit with the largest ε",
    ["uploads", "until", "ε"].map((title) => ({ title })), data.budget.counts.map((count, at) => [String(count), when(data.budget.dates[at]), significant(data.budget.epsilon[at])]))));
  sections.push((view) => {
    const budget = view.budget;
    curve.hidden = !budget?.units.length;
    if (!budget) { fill(body, el("p", {}, "No uploads: the method uploads nothing, or none was recorded.")); return; }
    fill(body, el("p", {}, `${plural(budget.uploads, "upload")} of this data in all runs, ${budget.uploads_here} of them in this run; ${budget.unprotected} had arrays without noise. Raw data, links and labels never leave.`),
      budget.seeded ? el("p", { class: "bad" }, `The noise of ${plural(budget.seeded, "upload")} was seeded and can be reproduced: these were not private.`) : null,
      view.left.length ? scrolling("what left in this run", table("In this run", [{ title: "arrays" }, { title: "values per upload" }, { title: "uploads" }, { title: "rounds" }, { title: "protection", text: true }],
        view.left.map((one) => [el("code", { class: "wrap" }, one.arrays), one.values.toLocaleString("en"), String(one.uploads), one.first === one.last ? String(one.first) : `${one.first}–${one.last}`, one.protection]))) : null,
      budget.units.length ? table(`ε over all uploads${budget.limit ? `; the limit is ${significant(budget.limit)}` : ""}`, [{ title: "of" }, { title: "ε" }],
        budget.units.map(([what, value]) => [what, significant(value)]), { class: "narrow" }) : null);
    if (curve.hidden) return;
    drawCurves(chart, { xs: budget.counts, xLabel: "uploads", format: significant, lines: [{ values: budget.epsilon, kind: "one" }], label: "ε over the uploads; the table below has the numbers" });
    behind();
  });
};

sections.push((view) => fill(byId("card"), view.card ? el("div", { class: "card" }, markdown(view.card))
  : el("p", { class: "quiet" }, "There is none yet: run fedgt evaluate where the data is.")));
setupOwnRounds(); setupSure(); setupLeft();
