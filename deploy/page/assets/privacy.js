// The privacy budget.
const budgetRows = (spent) => [
  ["epsilon_coordinate", "one coordinate in one upload"], ["epsilon_coordinate_total", "one coordinate over all uploads"],
  ["epsilon_upload_total", "whole uploads, composed"], ["epsilon_label_total", "one label"], ["epsilon_total", "everything released, composed"],
].filter(([key]) => known(spent[key])).map(([key, text]) => [text, significant(spent[key])]);
const setupPrivacy = () => {
  const host = byId("privacy-body");
  const text = el("div"), charts = el("div", { class: "pair" });
  const panels = [["epsilon_coordinate", "ε of one coordinate, over all uploads so far"], ["epsilon_total", "ε of everything released so far"]]
    .map(([key, title]) => ({ key, title, host: el("div", { class: "chart" }) }));
  charts.append(...panels.map((panel) => el("div", {}, el("h3", {}, panel.title), panel.host)));
  host.append(text, charts);
  const behind = tableBehind(host, "Table of the budget", () => scrolling("table of the budget", table("Spent by each institution",
    ["institution", "ε of one coordinate", "ε of everything"].map((title) => ({ title })),
    data.institutions.map((one) => [shortName(one.name), known(one.epsilon_coordinate) ? significant(one.epsilon_coordinate) : NOT_SHARED,
      known(one.epsilon_total) ? significant(one.epsilon_total) : NOT_SHARED]))));
  sections.push((view) => {
    const privacy = view.privacy;
    charts.hidden = !privacy;
    host.querySelector("details").hidden = !privacy;
    if (!privacy) {
      fill(text, el("p", {}, "No institution reported a privacy budget: uploads had no noise, or the budget was not shared."));
      return;
    }
    const spent = privacy.spent;
    fill(text, el("p", {}, "Uploads with noise, composed over the rounds (differential privacy). Arrays without noise are not counted."),
      spent ? table("Largest of any institution", [{ title: "of" }, { title: "ε" }], budgetRows(spent), { class: "narrow" }) : null,
      spent && !spent.private ? el("p", { class: "bad" }, "The noise was seeded and can be reproduced: this run is not private.") : null,
      spent && spent.epsilon_coordinate_total > 10 ? el("p", { class: "quiet" }, "An ε above about 10 is a weak guarantee. It bounds the worst case; an actual attack may learn far less.") : null);
    for (const panel of panels) drawCurves(panel.host, { xs: privacy.rounds, gaps: true, format: significant,
      lines: [{ values: privacy[panel.key], kind: "one" }], label: `${panel.title} over the rounds; the table below has the numbers` });
    behind();
  });
};
setupPrivacy();
