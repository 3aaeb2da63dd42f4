// What every page does in a browser: keys, copying, the theme, what changes prove themselves with,
// and showing what is new while the page is open.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const csrf = $('meta[name="synapse-csrf"]');

  // -- changes ------------------------------------------------------------------------------------
  document.addEventListener("htmx:config:request", (event) => {
    if (csrf) event.detail.ctx.request.headers["x-synapse-csrf"] = csrf.content;
  });
  document.addEventListener("htmx:after:swap", () => $("#note")?.focus());
  document.addEventListener("htmx:error", () => say("The server does not answer. Nothing was changed."));

  // -- the theme ----------------------------------------------------------------------------------
  $("#theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch {}
    document.dispatchEvent(new Event("synapse:theme"));
  });

  // -- menu, copying ------------------------------------------------------------------------------
  const menu = $("#menu");
  menu?.addEventListener("click", () => {
    const open = $("#nav").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: button.dataset.copy });
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  });

  // -- keys ---------------------------------------------------------------------------------------
  const help = $("#help");
  $("#keys")?.addEventListener("click", () => help.showModal());
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Date.now() < going) {
      going = 0;
      const link = $$("[data-key]").find((each) => each.dataset.key === event.key);
      if (link) { event.preventDefault(); location.href = link.href; }
      return;
    }
    if (event.key === "/" && $("#search")) { event.preventDefault(); $("#search").focus(); }
    else if (event.key === "?" && help) { event.preventDefault(); help.showModal(); }
    else if (event.key === "g") going = Date.now() + 1500;
    else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  });
  function move(step) {
    const rows = $$("[data-row]").filter((row) => row.offsetParent);
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.contains(document.activeElement) || row === document.activeElement);
    const next = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
    const link = $("a.title", next) || $("a", next) || next;
    if (link === next) next.tabIndex = -1;
    link.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  // -- what is new --------------------------------------------------------------------------------
  const toast = $("#toast");
  function say(words, href, kind) {
    const line = document.createElement(href ? "a" : "p");
    line.textContent = words;
    if (href) line.href = href;
    if (kind) line.className = kind;
    toast.append(line);
    while (toast.children.length > 3) toast.firstChild.remove();
    setTimeout(() => line.remove(), kind === "critical" ? 20000 : 6000);
  }
  if (!$("#dot")) return;
  const dot = $("#dot");
  let cursor = null, newest = null, streaming = false, busy = false, again = false, told = new Set();
  const live = (on) => {
    dot.classList.toggle("on", on);
    dot.title = on ? "live" : "not live: the server does not answer";
  };

  // Takes the parts that are live from the page as it is now; not while somebody writes in them.
  async function refresh() {
    if (busy) { again = true; return; }
    if (!$("[data-live]")) return;
    const active = document.activeElement;
    if (active?.matches("input, textarea, select") && active.closest("[data-live]")) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-synapse-live": "1" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const old of $$("[data-live]")) {
        const fresh = page.getElementById(old.id);
        if (!fresh || fresh.innerHTML === old.dataset.was) continue;
        const known = new Set($$("a.title", old).map((link) => link.getAttribute("href")));
        const open = $$("details", old).map((each) => each.open);
        const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        old.dataset.was = fresh.innerHTML;
        old.replaceChildren(...fresh.childNodes);
        $$("details", old).forEach((each, n) => { if (open[n]) each.open = true; });
        for (const row of $$(".row", old)) {
          if (!known.has($("a.title", row)?.getAttribute("href"))) row.classList.add("fresh");
        }
        if (focused) $$("a", old).find((link) => link.getAttribute("href") === focused)?.focus();
        htmx.process(old);
      }
      document.dispatchEvent(new Event("synapse:fresh"));
    } catch {
    } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }
  function critical(id, body) {
    if (told.has(id)) return;
    told.add(id);
    const first = body.split("\n").find((row) => row.trim()) || "";
    say(`Critical: ${first.slice(0, 160)}`, `/entries/${encodeURIComponent(id)}`, "critical");
  }
  async function pulse() {
    let wait = streaming ? 5000 : 700;
    try {
      if (!document.hidden || cursor === null) {
        const answer = await fetch("/pulse");
        if (!answer.ok) throw new Error();
        const now = await answer.json();
        if (cursor !== null && now.cursor !== cursor) refresh();
        if (cursor !== null && now.critical && now.critical.id !== newest && !told.has(now.critical.id) && now.cursor > cursor) {
          critical(now.critical.id, now.critical.body);
        }
        newest = now.critical?.id ?? null;
        cursor = now.cursor;
        live(true);
      }
    } catch { live(false); wait = 3000; }
    setTimeout(pulse, wait);
  }
  pulse();

  // A browser has few connections to one server: a page that nobody sees gives its stream back.
  let soon = 0, source = null;
  function heard(event) {
    try {
      const news = JSON.parse(event.data);
      if (news.entry?.priority === "critical") critical(news.entry.id, String(news.entry.body ?? ""));
    } catch {}
    clearTimeout(soon);
    soon = setTimeout(refresh, 120);
  }
  function stream() {
    source?.close();
    source = null;
    streaming = false;
    if (document.hidden) return;
    source = new EventSource("/v1/events");
    source.onopen = () => { streaming = true; };
    source.onmessage = heard;
    source.onerror = () => { streaming = false; };
  }
  if (document.documentElement.dataset.stream !== "off") {
    stream();
    document.addEventListener("visibilitychange", stream);
    addEventListener("pagehide", () => source?.close());
  }
})();
