// Draws the dollars, or the tokens where no price is known, of each day as bars, in the colours of the theme.
"use strict";
(() => {
  let drawn = [];
  const dollars = (value) => `$${value.toLocaleString("en", { maximumFractionDigits: value < 1 ? 4 : 2 })}`;
  function draw() {
    drawn.forEach((chart) => chart.destroy());
    drawn = [];
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const place of document.querySelectorAll("[data-costs]")) {
      const points = JSON.parse(place.dataset.costs);
      const axis = { stroke: color("--soft"), grid: { show: false }, ticks: { show: false }, font: "12px system-ui" };
      const name = (at) => new Date(at * 1000).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
      const each = Math.max(Math.ceil(points.length / 10), 1);
      place.replaceChildren();
      drawn.push(new uPlot({
        width: place.clientWidth, height: place.clientHeight,
        legend: { show: false }, cursor: { show: false }, padding: [8, 4, 0, 0],
        scales: { x: { time: false, range: (_, min, max) => [min - 86400 * 0.7, Math.max(max, min + 86400 * 5) + 86400 * 0.7] }, y: { range: (_, min, max) => [0, max || 1] } },
        axes: [
          { ...axis, size: 26, values: (_, splits) => splits.map((at) => name(at)), splits: () => points.map((p) => p[0]).filter((_, n) => n % each === 0) },
          { ...axis, size: 64, grid: { show: true, stroke: color("--line"), width: 1 }, values: (_, splits) => splits.map("dollars" in place.dataset ? dollars : (n) => n.toLocaleString("en")) },
        ],
        series: [{}, { fill: color("--accent"), stroke: color("--accent"), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.62, 40], radius: 0.18 }) }],
      }, [points.map((p) => p[0]), points.map((p) => p["dollars" in place.dataset ? 1 : 2])], place));
    }
  }
  let last = 0;
  addEventListener("resize", () => { clearTimeout(last); last = setTimeout(draw, 150); });
  document.addEventListener("synapse:theme", draw);
  draw();
})();
