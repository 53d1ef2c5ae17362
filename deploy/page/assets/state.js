// What a person has chosen; it survives when new data comes.
const chosen = { institution: -1, round: null, from: 0 };
const sections = []; // show data
const choices = []; // of these, the ones that show what is chosen, too
let data = null;
const update = (fresh) => {
  data = fresh;
  keepingPlace(() => { for (const section of sections) section(data); });
  byId("main").dataset.shown = "yes";
};
const refresh = () => { if (data) for (const section of choices) section(data); };
const onChoice = (section) => { sections.push(section); choices.push(section); };

// Tables are made anew when a round ends: a reader stays where they have scrolled to, and on
// what has the focus.
const keepingPlace = (work) => {
  const titleOf = (node) => node.getAttribute("aria-label") ?? node.textContent;
  const regions = () => [...document.querySelectorAll(".scroll, summary")];
  const places = new Map(regions().map((node) => [titleOf(node), [node.scrollTop, node.scrollLeft]]));
  const focused = document.activeElement, title = titleOf(focused);
  work();
  for (const node of regions()) {
    [node.scrollTop, node.scrollLeft] = places.get(titleOf(node)) ?? [0, 0];
    if (!focused.isConnected && titleOf(node) === title) node.focus({ preventScroll: true });
  }
};
// Over those that can be compared: who shares nothing counts on neither side.
const meanOf = (view, value) => {
  const values = view.institutions.filter((one) => known(gainOf(one))).map(value);
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
};
const meanGain = (view) => meanOf(view, gainOf);
const meanAlone = (view) => meanOf(view, (one) => one.alone) ?? view.alone;
const gainOf = (one) => (known(one.test) && known(one.alone) ? one.test - one.alone : null);
// 1: it gains, -1: it loses, 0: the same, or rounded so that nobody can tell; null: not compared.
const signOf = (one) => {
  const gain = gainOf(one);
  return gain === null ? null : Math.abs(gain) < (one.step ?? 0) - 1e-9 ? 0 : Math.sign(gain);
};
