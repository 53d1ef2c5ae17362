// The privacy budget.
const budgetTexts = (spent) => [
  ["epsilon_coordinate", "One coordinate of one upload costs"], ["epsilon_coordinate_total", "over all uploads it has cost"],
  ["epsilon_total", "everything released together"], ["epsilon_upload_total", "uploads as a whole have cost"],
  ["epsilon_label_total", "one label has cost"],
].filter(([key]) => known(spent[key])).map(([key, text]) => `${text} ε ${significant(spent[key])}`);
const setupPrivacy = () => {
  const host = byId("privacy-body");
  const text = el("div"), charts = el("div", { class: "pair" });
  const panels = [["epsilon_coordinate", "ε of one coordinate"], ["epsilon_total", "ε of everything released"]]
    .map(([key, title]) => ({ key, title, host: el("div", { class: "chart" }) }));
  charts.append(...panels.map((panel) => el("div", {}, el("h3", {}, panel.title), panel.host)));
  host.append(text, charts);
  const behind = tableBehind(host, "Table of the budget", () => scrolling("table of the budget", table("Spent by each institution",
    ["institution", "ε of a coordinate", "ε of everything"].map((title) => ({ title })),
    data.institutions.map((one) => [shortName(one.name), known(one.epsilon_coordinate) ? significant(one.epsilon_coordinate) : NOT_SHARED,
      known(one.epsilon_total) ? significant(one.epsilon_total) : NOT_SHARED]))));
  sections.push((view) => {
    const privacy = view.privacy;
    charts.hidden = !privacy;
    host.querySelector("details").hidden = !privacy;
    if (!privacy) {
      fill(text, el("p", {}, "No institution reported a privacy budget: nothing that was uploaded had noise added, or the budget was not shared."));
      return;
    }
    const spent = privacy.spent;
    fill(text, el("p", {}, "What left the institutions with noise, composed over the rounds; the largest of any institution.",
      spent ? ` ${budgetTexts(spent).join("; ")}.` : ""),
      spent && !spent.private ? el("p", { class: "bad" }, "The noise was seeded and can be drawn again: this run is not private.") : null,
      spent && spent.epsilon_coordinate_total > 10 ? el("p", { class: "quiet" }, "An ε above about 10 promises little by itself: it bounds the worst case, not what an attacker would learn.") : null);
    for (const panel of panels) drawCurves(panel.host, { xs: privacy.rounds, gaps: true, format: significant,
      lines: [{ values: privacy[panel.key], kind: "one" }], label: `${panel.title} over the rounds; the table below has the numbers` });
    behind();
  });
};
setupPrivacy();
