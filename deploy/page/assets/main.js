// Start: show the data in the page, and what follows where the page is served live.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update(data));
update(JSON.parse(byId("data").textContent));

if (document.documentElement.dataset.live) {
  const state = byId("live");
  const say = (text, live) => { state.textContent = text; state.classList.toggle("live", live); state.hidden = false; };
  let asking = false, again = false;
  const fetchData = async () => {
    if (asking) { again = true; return; }
    asking = true;
    do {
      again = false;
      try { update(await (await fetch("data.json", { cache: "no-store" })).json()); }
      catch { say("connection lost", false); }
    } while (again);
    asking = false;
  };
  const events = new EventSource("events");
  events.addEventListener("open", () => { say("live", true); fetchData(); });
  events.addEventListener("changed", fetchData);
  events.addEventListener("error", () => say("connection lost", false));
}
