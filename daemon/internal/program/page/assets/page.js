// Keeps a page fresh that is complete without this: each part with data-live is replaced when the server has another one.
"use strict";
(() => {
  const every = 5000;
  const live = () => document.querySelectorAll("[data-live]");
  const busy = () => document.hidden || String(getSelection()) !== "";

  const notes = document.querySelectorAll("#away, #refused, #ended");
  const note = (id) => notes.forEach((n) => { n.hidden = n.id !== id; });

  async function refresh() { // and return which note is due, if any
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(4 * every) });
    if (answer.status === 401 && document.getElementById("ended")) return "ended";
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok) {
      const why = fresh.querySelector("main .note[role=alert]:not([hidden])");
      if (!why) throw new Error(answer.status);
      document.getElementById("why").textContent = why.textContent;
      return "refused";
    }
    for (const old of live()) {
      const part = fresh.getElementById(old.id);
      if (!part || part.outerHTML === old.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      old.replaceWith(document.adoptNode(part));
      if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  async function loop() {
    try {
      if (!busy()) note(await refresh());
    } catch {
      note("away");
    }
    setTimeout(loop, every);
  }
  if (live().length) setTimeout(loop, every);

  for (const block of document.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = document.body.dataset.copy;
    button.addEventListener("click", async () => {
      const range = document.createRange();
      range.selectNodeContents(block.firstElementChild);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      try {
        await navigator.clipboard.writeText(String(getSelection()));
        getSelection().removeAllRanges();
        button.textContent = document.body.dataset.copied;
      } catch { /* the text is selected: Ctrl+C copies it */ }
    });
    block.parentElement.append(button);
  }
})();
