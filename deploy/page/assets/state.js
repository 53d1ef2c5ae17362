// What a person has chosen; it survives when new data comes.
const chosen = { institution: -1, round: null, from: 0 };
const sections = [];
let data = null;
const update = (fresh) => {
  data = fresh;
  for (const section of sections) section(data);
  byId("main").dataset.shown = "yes";
};
const refresh = () => { if (data) update(data); };
// Over those that can be compared: who shares nothing counts on neither side.
const meanOf = (view, value) => {
  const values = view.institutions.filter((one) => known(gainOf(one))).map(value);
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
};
const meanGain = (view) => meanOf(view, gainOf);
const meanAlone = (view) => meanOf(view, (one) => one.alone) ?? view.alone;
const gainOf = (one) => (known(one.test) && known(one.alone) ? one.test - one.alone : null);
