"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const stored = () => {
    try { return localStorage.getItem("tabgnm-theme"); } catch { return null; } // blocked for some local files
  };
  const store = (theme) => {
    try { localStorage.setItem("tabgnm-theme", theme); } catch { /* the choice then lasts as long as the page */ }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.setAttribute("aria-pressed", String(isDark()));
    button.querySelector("span").textContent = isDark() ? "Light" : "Dark";
  };
  const before = stored();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();

  // The section that is being read is marked in the contents.
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  const visible = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) visible.add(entry.target.id); else visible.delete(entry.target.id);
    }
    const current = [...links.keys()].find((id) => visible.has(id));
    for (const [id, link] of links) {
      if (id === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -60% 0px" });
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) observer.observe(section);
  }

  for (const copy of document.querySelectorAll("button.copy")) {
    copy.addEventListener("click", async () => {
      const code = copy.closest(".snippet").querySelector("code");
      let done = false;
      try {
        await navigator.clipboard.writeText(code.textContent);
        done = true;
      } catch { // not allowed in some browsers for local files: the text is selected instead
        const selection = getSelection();
        selection.selectAllChildren(code);
        done = document.execCommand("copy");
      }
      copy.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
  }

  // Details are open on paper.
  addEventListener("beforeprint", () => {
    for (const own of document.querySelectorAll("details")) own.open = true;
  });
})();
