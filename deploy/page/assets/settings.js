// The settings of the run.
const settingText = (value) => (value === "" ? "empty" : value === null ? "–" : String(value));
sections.push((view) => {
  const host = byId("settings-body");
  const columns = ["setting", "here", "default"].map((title) => ({ title }));
  const rows = (settings) => settings.map((one) => [
    [el("code", {}, one.key), el("small", { class: "meaning" }, one.description)], settingText(one.value), settingText(one.default)]);
  const changed = view.settings.filter((one) => one.changed);
  const open = host.querySelector("details")?.open;
  fill(host,
    changed.length ? scrolling("settings that differ", table(`What differs from the defaults${view.method_title ? ` of ${view.method_title}` : ""}`, columns, rows(changed)))
      : el("p", {}, "All settings have their defaults."),
    el("details", { open }, el("summary", {}, `All ${view.settings.length} settings`), scrolling("all settings", table("", columns, rows(view.settings)))));
});
