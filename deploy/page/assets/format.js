// Numbers as people read them.
const NOT_SHARED = "not shared";
const known = (value) => value !== null && value !== undefined;
// No line ends between a number and its unit.
const percent = (share, missing = NOT_SHARED) => known(share) ? `${(100 * share).toFixed(1)}\u00a0%` : missing;
// What an institution measured in the best round, or why that is not known.
const measured = (one, share) => known(share) && one.step ? `≈\u00a0${Math.round(100 * share)}\u00a0%`
  : percent(share, one.in_best === false ? "no answer" : NOT_SHARED);
const points = (difference) =>
  `${difference > 0 ? "+" : difference < 0 ? "−" : "±"}${Math.abs(100 * difference).toFixed(1)}`;
const decimals = (value, digits = 3) => known(value) ? Number(value).toFixed(digits).replace(/^-(0\.0+)$/, "$1").replace("-", "−") : "–";
const significant = (value) => !known(value) ? "–"
  : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
const sized = (bytes) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let index = 0;
  while (bytes >= 1000 && index < units.length - 1) { bytes /= 1000; index += 1; }
  return `${index && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[index]}`;
};
const duration = (seconds) => !known(seconds) ? "–"
  : seconds < 10 ? `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`
  : seconds < 120 ? `${Math.round(seconds)} s`
  : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const ranges = (numbers) => {
  const parts = [];
  for (const number of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] === number - 1) last[1] = number; else parts.push([number, number]);
  }
  const texts = parts.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`));
  return texts.length > 12 ? `${texts.slice(0, 12).join(", ")} and more` : texts.join(", ");
};
const roundsOf = (note) => !note.last ? ""
  : note.count === 1 ? `round ${note.first}` : `${note.count} rounds, ${note.first} to ${note.last}`;
const when = (text) => {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().slice(0, 16).replace("T", " ") + " UTC";
};
