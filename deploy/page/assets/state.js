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
const gainOf = (one) => (known(one.test) && known(one.alone) ? one.test - one.alone : null);
