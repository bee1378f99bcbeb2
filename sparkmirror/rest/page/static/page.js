// Keeps the page as new as the server's last look: fragments come as server-sent events and are merged into what is there,
// so that focus, scrolling and selections stay. Without this script the page is whole, and loads itself again.
"use strict";

(() => {
  const SILENT_MS = 5000; // a second passes between two ticks; so many missed ones are a lost connection
  const GRACE_MS = 3000; // for the first tick of a page that was hidden
  const OLD_MS = 15000; // figures that old are greyed, also while the connection stands
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const say = document.getElementById("announce");
  let source = null, heardAt = 0, asOf = 0, ageAtHearing = 0, graceUntil = 0, isLost = false;

  // --- merging ----------------------------------------------------------------------------------------------------

  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };
  const isSame = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  const mergeAttributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  };

  const merge = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    mergeAttributes(old, fresh);
    mergeChildren(old, fresh);
  };

  const mergeChildren = (old, fresh) => {
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      let match = at;
      if (wanted.id) while (match && !isSame(match, wanted)) match = match.nextSibling;
      if (match && isSame(match, wanted)) {
        if (match === at) at = at.nextSibling;
        else old.insertBefore(match, at);
        merge(match, wanted);
      } else {
        old.insertBefore(wanted, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // A row that moves to another place loses the focus on its way.
  const mergeKeepingFocus = (old, fresh) => {
    const focused = document.activeElement;
    mergeChildren(old, fresh);
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  };

  // --- times --------------------------------------------------------------------------------------------------------

  const ZONES = ["UTC", "local", "ago"];
  let zone = new URLSearchParams(location.search).get("time") || "UTC";
  if (!ZONES.includes(zone)) zone = "UTC";

  const ago = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    return s < 60 ? `${s} s ago` : s < 3600 ? `${Math.floor(s / 60)} min ago` : `${Math.floor(s / 3600)} h ago`;
  };
  const clock = (date) =>
    zone === "ago" ? ago(Date.now() - date) : zone === "local" ? date.toLocaleTimeString() : date.toISOString().slice(11, 19);
  const writeTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const text = clock(new Date(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  };

  // --- how old it is --------------------------------------------------------------------------------------------------

  const showAge = () => {
    if (!live) return;
    const age = ageAtHearing + (performance.now() - heardAt);
    if (document.hidden || performance.now() < graceUntil) return;
    const lost = performance.now() - heardAt > SILENT_MS;
    const old = lost || age > OLD_MS;
    const at = clock(new Date(asOf));
    const seconds = Math.round(age / 1000);
    const unit = zone === "UTC" ? " UTC" : "";
    document.getElementById("live-text").textContent = lost
      ? `connection lost: as of ${at}${unit}`
      : old ? `the mirror is silent: as of ${at}${unit}` : `live, as of ${at}${unit}${seconds > 2 ? `, ${seconds} s old` : ""}`;
    live.className = old ? "live off" : "live on";
    document.body.classList.toggle("stale", old);
    if (old !== isLost) {
      isLost = old;
      say.textContent = old ? `Connection lost. Figures are as of ${at}.` : "The figures are live again.";
    }
  };

  // --- events ---------------------------------------------------------------------------------------------------------

  const announced = () => [...main.querySelectorAll("[data-announce]")].map((found) => found.dataset.announce).join(" ");

  const connect = () => {
    if (source) source.close();
    source = null;
    if (!main.dataset.events || document.hidden) return;
    source = new EventSource(main.dataset.events);
    source.addEventListener("fragment", (event) => {
      const { id, html } = JSON.parse(event.data);
      const old = document.getElementById(id);
      if (!old) return;
      const before = announced();
      mergeKeepingFocus(old, parsed(html));
      writeTimes(old);
      const after = announced();
      if (after !== before) say.textContent = after;
    });
    source.addEventListener("tick", (event) => {
      const tick = JSON.parse(event.data);
      heardAt = performance.now();
      asOf = tick.as_of_ms;
      ageAtHearing = Math.max(0, tick.now_ms - tick.as_of_ms);
      graceUntil = 0;
      showAge();
    });
    // The page was opened before the flows were known.
    source.addEventListener("reload", () => location.reload());
    // A browser gives up for good when it was answered with an error; we do not.
    source.addEventListener("error", () => {
      if (source && source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    });
  };

  // --- going elsewhere on the same page --------------------------------------------------------------------------------

  let going = null;
  const go = async (url, push) => {
    const own = (going = {});
    const target = new URL(url, location.href);
    if (zone !== "UTC") target.searchParams.set("time", zone);
    try {
      const answer = await fetch(target, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (own !== going) return;
      if (!answer.ok || !page.getElementById("main")) throw new Error(String(answer.status));
      const fresh = page.getElementById("main");
      if (push) history.pushState(null, "", target);
      mergeAttributes(main, fresh);
      mergeKeepingFocus(main, fresh);
      document.title = page.title;
      writeTimes(main);
      connect();
    } catch {
      if (own === going) location.assign(target);
    }
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-soft]");
    if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      go(link.href, true);
      return;
    }
    const copy = event.target.closest("button[data-copy]");
    if (copy) {
      const text = document.getElementById(copy.dataset.copy).textContent;
      navigator.clipboard.writeText(text).then(
        () => { say.textContent = "Copied."; copy.textContent = "Copied"; },
        () => getSelection().selectAllChildren(document.getElementById(copy.dataset.copy)),
      );
    }
  });

  const address = (form) => {
    const words = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && !(name === "sort" && value === "attention")));
    return `${form.getAttribute("action")}?${words}`;
  };
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-soft]")) {
      event.preventDefault();
      go(address(event.target), true);
    } else if (event.target.matches("form[data-act]")) {
      event.preventDefault();
      act(event.target);
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-soft] select")) go(address(event.target.form), true);
  });
  let typing = 0;
  document.addEventListener("input", (event) => {
    if (event.target.matches("form[data-soft] input")) {
      clearTimeout(typing);
      typing = setTimeout(() => go(address(event.target.form), true), 350);
    } else if (event.target.dataset.must !== undefined) {
      event.target.form.querySelector("button[type=submit]").disabled = event.target.value !== event.target.dataset.must;
    }
  });
  addEventListener("popstate", () => go(location.href, false));

  // --- actions ----------------------------------------------------------------------------------------------------------

  const act = async (form) => {
    const result = document.getElementById("act-result");
    const button = form.querySelector("button[type=submit]");
    button.disabled = true;
    result.className = "";
    result.textContent = "Asked; waiting for the answer of the flow's owner…";
    let text, isDone = false;
    try {
      const answer = await fetch(form.dataset.act, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(Object.fromEntries(new FormData(form))),
      });
      const body = await answer.json();
      isDone = answer.ok;
      text = answer.ok ? body.text : body.message;
    } catch (error) {
      text = `No answer: ${error.message}. Whether it was carried out is not known; sparkmirror history shows it.`;
    }
    result.className = isDone ? "done" : "failed";
    result.textContent = isDone ? `Done: ${text}` : text;
    button.disabled = isDone;
  };

  // --- the start ----------------------------------------------------------------------------------------------------------

  const button = document.getElementById("zone");
  if (button) {
    const showZone = () => { button.textContent = zone === "ago" ? "relative" : zone; };
    button.hidden = false;
    button.setAttribute("aria-label", "Show times in UTC, in local time, or as how long ago");
    button.addEventListener("click", () => {
      zone = ZONES[(ZONES.indexOf(zone) + 1) % ZONES.length];
      const url = new URL(location.href);
      if (zone === "UTC") url.searchParams.delete("time");
      else url.searchParams.set("time", zone);
      history.replaceState(null, "", url);
      showZone();
      writeTimes(document);
      showAge();
    });
    showZone();
  }
  if (live) {
    asOf = Number(live.dataset.asOf);
    heardAt = performance.now();
    setInterval(() => { showAge(); if (zone === "ago") writeTimes(document); }, 1000);
    // A hidden page asks for nothing, so that a browser's six connections are left to those that are looked at.
    document.addEventListener("visibilitychange", () => {
      graceUntil = performance.now() + GRACE_MS;
      connect();
    });
    writeTimes(document);
    connect();
  }
})();
