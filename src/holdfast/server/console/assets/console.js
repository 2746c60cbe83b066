// The console's only script: live parts, keys, and times in local time. Everything works without it, except that.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const kept = (name, usual) => { try { return localStorage.getItem(name) ?? usual; } catch { return usual; } };
  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode */ } };
  const say = (words) => { $("#status").textContent = words; };
  const root = document.body.dataset.root;

  // -- times: UTC or local, as was chosen last -----------------------------------------------------------------
  let zone = kept("holdfast-zone", "utc");
  const two = (number) => String(number).padStart(2, "0");
  const shown = (time) => {
    const at = new Date(time.dateTime);
    const get = (part) => (zone === "utc" ? at[`getUTC${part}`]() : at[`get${part}`]());
    const clock = `${two(get("Hours"))}:${two(get("Minutes"))}:${two(get("Seconds"))}`;
    return time.dataset.form === "clock" ? clock : `${get("FullYear")}-${two(get("Month") + 1)}-${two(get("Date"))} ${clock}`;
  };
  const showTimes = (where = document) => {
    for (const time of all("time[data-form]", where)) time.textContent = shown(time);
    const button = $("#zone");
    if (button) button.textContent = zone === "utc" ? "Times: UTC" : "Times: local";
  };
  const switchZone = () => {
    zone = zone === "utc" ? "local" : "utc";
    keep("holdfast-zone", zone);
    showTimes();
    say(zone === "utc" ? "Times are in UTC" : "Times are local");
  };

  // -- live parts: when something changes, this page is fetched again, and its live parts exchanged -------------------------
  let source = null, waiting = null, busy = false, again = false, isFirst = true;
  const isEdited = (part) => part.contains(document.activeElement) && document.activeElement.matches("input,textarea,select,button");
  const typedIn = (part) => all("input[name]:not([type=hidden]),textarea[name]", part).filter((each) => each.value !== each.defaultValue);
  const same = (field, part) => all(`[name="${CSS.escape(field.name)}"]`, part).find((each) => each.form?.action === field.form?.action);
  const nameOf = (row) => $("[href]", row)?.getAttribute("href") ?? $("[id]", row)?.id;
  const focusOn = (row) => $("a[href], summary", row)?.focus({ preventScroll: true });
  const exchange = (part, fresh) => {
    if (!fresh || isEdited(part) || fresh.innerHTML === part.dataset.was) return;
    const open = new Set(all("details[open][id]", part).map((each) => each.id));
    const chosen = $("[data-row].at", part), at = chosen && nameOf(chosen), isFocused = chosen?.contains(document.activeElement);
    const typed = typedIn(part);
    part.dataset.was = fresh.innerHTML;
    part.replaceChildren(...fresh.childNodes);
    for (const each of all("details[id]", part)) if (open.has(each.id)) each.open = true;
    for (const each of typed) { const field = same(each, part); if (field) field.value = each.value; }
    const row = at && all("[data-row]", part).find((each) => nameOf(each) === at);
    row?.classList.add("at");
    if (row && isFocused) focusOn(row);
    slide(part);
    showTimes(part);
  };
  const refresh = async () => {
    waiting = null;
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Holdfast-Refresh": "1" } });
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of all("[data-live]")) exchange(part, fresh.getElementById(part.id));
    } catch { /* the next event fetches them */ } finally {
      busy = false;
      if (again) { again = false; soon(); }
    }
  };
  const soon = () => { waiting ??= setTimeout(refresh, 300); };
  const listen = () => {
    const events = document.body.dataset.events;
    const button = $("#live");
    if (!events || !button) return;
    const isLive = kept("holdfast-live", "yes") === "yes";
    button.hidden = false;
    button.textContent = isLive ? "Live" : "Updates paused";
    button.setAttribute("aria-pressed", String(isLive));
    source?.close();
    source = null;
    if (!isLive) return;
    source = new EventSource(events);
    for (const kind of ["runs", "tasks", "run", "entry", "generation", "end"]) source.addEventListener(kind, () => {
      if (isFirst && kind !== "entry") { isFirst = false; return; } // what is there is shown already
      soon();
    });
    source.addEventListener("end", () => source.close());
    const opened = source; // refused, as when too many streams are open, it does not connect again by itself
    source.onerror = () => { if (opened.readyState === EventSource.CLOSED) setTimeout(() => { if (source === opened) listen(); }, 10000); };
  };
  const switchLive = () => {
    keep("holdfast-live", kept("holdfast-live", "yes") === "yes" ? "no" : "yes");
    listen();
    if (kept("holdfast-live", "yes") === "yes") soon();
    say($("#live").textContent);
  };

  // A slider moves at once: the form that it is in is sent as soon as it is let go.
  const slide = (where) => {
    for (const slider of all("input[data-slide]", where)) {
      slider.addEventListener("input", () => { const text = $(`output[for="${slider.id}"]`); if (text) text.textContent = slider.value; });
      slider.addEventListener("change", () => slider.form.requestSubmit());
    }
  };

  // -- keys ----------------------------------------------------------------------------------------------------
  let leader = false;
  const rows = () => all("[data-row]");
  const move = (by) => {
    const list = rows();
    if (!list.length) return;
    const at = list.findIndex((row) => row.classList.contains("at"));
    const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by));
    list[at]?.classList.remove("at");
    list[next].classList.add("at");
    list[next].scrollIntoView({ block: "nearest" });
    focusOn(list[next]);
  };
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input,textarea,select")) return;
    const key = event.key;
    if (leader) {
      leader = false;
      $(`nav [data-key="${CSS.escape(key)}"]`)?.click();
      return;
    }
    const act = $(`[data-press="${CSS.escape(key)}"]`);
    if (act) { event.preventDefault(); act.matches("input,textarea,select,[data-focus]") ? act.focus() : act.click(); return; }
    switch (key) {
      case "g": leader = true; setTimeout(() => { leader = false; }, 1500); break;
      case "/": $("[data-search]")?.focus(); event.preventDefault(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "p": if (source || document.body.dataset.events) switchLive(); break;
      case "u": switchZone(); break;
      case "?": $("#help").showModal(); break;
    }
  };

  document.addEventListener("keydown", press);
  for (const [id, act] of [["#zone", switchZone], ["#live", switchLive], ["#keys", () => $("#help").showModal()]]) {
    const button = $(id);
    if (button) { button.addEventListener("click", act); if (id !== "#live") button.hidden = false; }
  }
  slide(document);
  showTimes();
  listen();
  addEventListener("pagehide", () => source?.close());
})();
