// Draws the counts of days as bars, in the colours of the theme.
"use strict";
(() => {
  let drawn = [];
  function draw() {
    drawn.forEach((chart) => chart.destroy());
    drawn = [];
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const place of document.querySelectorAll("[data-chart]")) {
      const points = JSON.parse(place.dataset.chart);
      const axis = { stroke: color("--soft"), grid: { show: false }, ticks: { show: false }, font: "12px system-ui" };
      const name = (at) => new Date(at * 1000).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
      if (!place.clientWidth) continue;
      place.replaceChildren();
      drawn.push(new uPlot({
        width: place.clientWidth, height: place.clientHeight,
        legend: { show: false }, cursor: { show: false }, padding: [8, 18, 0, 0],
        scales: { x: { time: false, range: (_, min, max) => [min - 50000, max + 50000] }, y: { range: (_, min, max) => [0, Math.max(max, 4)] } },
        axes: [
          { ...axis, size: 26, values: (_, splits) => splits.map((at) => name(at)), splits: () => points.map((p) => p[0]).filter((_, n) => n % 4 === 0) },
          { ...axis, size: 40, grid: { show: true, stroke: color("--line"), width: 1 }, values: (_, splits) => splits.map((n) => Number.isInteger(n) ? n.toLocaleString("en") : "") },
        ],
        series: [{}, { fill: color("--accent"), stroke: color("--accent"), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.62, 40], radius: 0.18 }) }],
      }, [points.map((p) => p[0]), points.map((p) => p[1])], place));
    }
  }
  let last = 0;
  addEventListener("resize", () => { clearTimeout(last); last = setTimeout(draw, 150); });
  document.addEventListener("synapse:theme", draw);
  document.addEventListener("htmx:after:swap", draw);
  draw();
})();
