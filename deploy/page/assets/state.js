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
const meanGain = (view) => {
  const gains = view.institutions.map(gainOf).filter(known);
  return gains.length ? gains.reduce((a, b) => a + b, 0) / gains.length : null;
};
const gainOf = (one) => (known(one.test) && known(one.alone) ? one.test - one.alone : null);
