// Runs in the page of VS Code: when the last key went down, and when ghost text was painted after it, in seconds since 1970.
() => {
  const now = () => (performance.timeOrigin + performance.now()) / 1000;
  window.timed = { key: 0, painted: 0 };
  const ghost = () => document.querySelector('.view-lines [class*="ghost-text-decoration"]');
  addEventListener('keydown', () => (window.timed = { key: now(), painted: 0 }), true);
  new MutationObserver(() => {
    if (!window.timed.painted && ghost()) {
      const timed = window.timed;
      requestAnimationFrame(() => (timed.painted ||= now()));
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
};
