// Curves over rounds, by uPlot.
const charts = new Set();

// lines: [{values, kind, dots}] with kind all, one, mean; marks: [{x, text, dashed}]. With shares,
// x is from 0 to 1 in place of rounds.
const drawCurves = (host, { xs, lines, marks = [], format, label, gaps = false, shares = false, top, range, xLabel = "round" }) => {
  host._chart?.destroy();
  charts.delete(host);
  const style = { all: ["faint", 1], one: ["accent", 2.2], mean: ["ink", 2.4] };
  const axis = { stroke: color("quiet"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const drawMarks = (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const mark of marks) {
      const x = Math.round(plot.valToPos(mark.x, "x", true));
      ctx.strokeStyle = color(mark.dashed ? "quiet" : "accent");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash(mark.dashed ? [5 * devicePixelRatio, 4 * devicePixelRatio] : []);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      if (!mark.text) continue;
      ctx.setLineDash([]);
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      const left = x > bbox.left + bbox.width * 0.7;
      ctx.textAlign = left ? "right" : "left";
      const at = x + (left ? -6 : 6) * devicePixelRatio, y = bbox.top + bbox.height - 7 * devicePixelRatio;
      ctx.lineWidth = 4 * devicePixelRatio;
      ctx.strokeStyle = color("paper"); ctx.strokeText(mark.text, at, y);
      ctx.fillStyle = color("quiet"); ctx.fillText(mark.text, at, y);
    }
    ctx.restore();
  };
  const options = {
    width: widthFor(host), height: 250,
    legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: { range: (_, lowest, highest) => {
      if (lowest === null) return [0, 1];
      if (shares) return [-0.05, 1.05]; // points at 0 and 1 stay clear of the axes
      const [low, high] = range ?? [lowest, highest];
      const room = Math.max((high - low) * 0.06, 1e-9);
      return [Math.max(0, low - room), top === undefined ? high + room : Math.min(top, high + room)];
    } } },
    axes: [{ ...axis, size: 26, gap: 4, label: xLabel, labelSize: 18, labelGap: 0, labelFont: axis.font,
      ...(shares ? { values: (_, ticks) => ticks.map((tick) => `${Math.round(100 * tick)} %`) } : { incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000] }) },
      { ...axis, size: 58, values: (_, ticks) => ticks.map(format) }],
    series: [{}, ...lines.map((line) => ({
      stroke: color(style[line.kind][0]), width: style[line.kind][1], points: { show: xs.length < 2 || Boolean(line.dots) },
      spanGaps: !gaps }))],
    hooks: { draw: [drawMarks] },
  };
  const draw = () => {
    const plot = new uPlot(options, [xs, ...lines.map((line) => line.values)], host);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", label);
    host._chart = plot;
  };
  draw();
  charts.add(host);
};

// Charts are canvases of a fixed size; on paper, styles shrink them to the column.
const PAPER_WIDTH = 480;
const isPaper = () => document.documentElement.hasAttribute("data-paper");
const widthFor = (host) => isPaper() ? PAPER_WIDTH : Math.max(host.clientWidth, 200);
addEventListener("resize", () => {
  for (const host of charts) if (host._chart && host._chart.width !== widthFor(host)) host._chart.setSize({ width: widthFor(host), height: 250 });
});
// Paper is white, also for readers of a dark page: what is drawn is drawn again.
const onPaper = (printing) => {
  if (printing === isPaper()) return;
  document.documentElement.toggleAttribute("data-paper", printing);
  if (data) update(data);
};
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
matchMedia("print").addEventListener("change", (media) => onPaper(media.matches));
