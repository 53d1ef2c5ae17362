// One round is chosen for the whole page; every slider shows it. At its end it follows a live run.
const roundSlider = () => {
  let rounds = [];
  const input = el("input", { type: "range", min: "0", step: "1", oninput: () => {
    const at = Number(input.value);
    chosen.round = at === rounds.length - 1 ? null : rounds[at];
    refresh();
  } });
  const shown = el("output");
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  const button = el("button", { type: "button", onclick: () => {
    if (timer) { stop(); return; }
    button.textContent = "Stop";
    let at = Number(input.value) >= rounds.length - 1 ? 0 : Number(input.value);
    const step = Math.max(1, Math.round(rounds.length / 60));
    timer = setInterval(() => {
      chosen.round = at >= rounds.length - 1 ? null : rounds[at];
      refresh();
      if (at >= rounds.length - 1) stop();
      at = Math.min(at + step, rounds.length - 1);
    }, 150);
  } }, "Play");
  const node = el("span", { class: "controls", style: { margin: "0" } }, el("label", {}, "Round ", input), shown, button);
  return {
    node,
    update: (fresh) => {
      rounds = fresh;
      node.hidden = rounds.length < 2;
      input.max = String(Math.max(rounds.length - 1, 0));
      const at = chosen.round === null ? rounds.length - 1 : rounds.findIndex((round) => round >= chosen.round);
      input.value = String(at < 0 ? rounds.length - 1 : at);
      const round = rounds[Number(input.value)];
      shown.textContent = known(round) ? `round ${round}` : "";
      input.setAttribute("aria-valuetext", shown.textContent);
      return Number(input.value);
    },
  };
};
