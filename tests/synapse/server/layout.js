// Looks for what is wrong with the layout of a page: a page that is wider than its window, text that
// is cut off without a sign, things that lie over one another. Returns a list of findings.
() => {
  const found = [];
  const name = (e) => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}${e.className && e.className.baseVal === undefined ? "." + String(e.className).trim().split(/\s+/).join(".") : ""}: ${(e.textContent || "").trim().slice(0, 40)}`;
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} px wide in ${innerWidth} px`);
  const scrolls = (e) => { for (let p = e; p; p = p.parentElement) { if (/auto|scroll/.test(getComputedStyle(p).overflowX)) return true; } return false; };
  const seen = (e) => {
    const style = getComputedStyle(e);
    const box = e.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && box.width > 1 && box.height > 1 && e.checkVisibility();
  };
  const all = [...document.body.querySelectorAll("*")].filter((e) => seen(e) && !e.closest(".skip, .hidden, svg, .chart, dialog, option"));
  for (const e of all) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if ((box.right > innerWidth + 1 || box.left < -1) && !scrolls(e)) found.push(`outside of the window: ${name(e)}`);
    const card = e.closest(".card")?.getBoundingClientRect();
    if (card && (box.right > card.right + 1 || box.left < card.left - 1) && !scrolls(e)) found.push(`outside of its card: ${name(e)}`);
    const clamped = style.webkitLineClamp !== "none" || style.textOverflow === "ellipsis" || e.matches("input, textarea, select, #toast *");
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (own && !clamped && !scrolls(e) && style.overflow === "hidden" && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2)) found.push(`cut off: ${name(e)}`);
    if (own && !scrolls(e) && style.display !== "inline" && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && style.overflowX === "visible") found.push(`text leaves its box: ${name(e)}`);
  }
  // what can be pressed or read may not lie over another such thing
  const leaves = all.filter((e) => e.matches("a, button, input, select, textarea, h1, h2, h3, .pill, time") && !e.closest(".top, .side") && !e.closest("#toast"));
  for (let i = 0; i < leaves.length; i++) for (let j = i + 1; j < leaves.length; j++) {
    const [a, b] = [leaves[i], leaves[j]];
    if (a.contains(b) || b.contains(a)) continue;
    const over = [...a.getClientRects()].some((p) => [...b.getClientRects()].some((q) =>
      Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3));
    if (over && !scrolls(a) && !scrolls(b)) found.push(`${name(a)} lies over ${name(b)}`);
  }
  return [...new Set(found)].slice(0, 20);
}
