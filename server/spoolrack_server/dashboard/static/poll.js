// Asks again and again: less often while it fails, and not at all while nobody looks.

import { useEffect, useRef, useState } from "./vendor/htm/standalone.module.js";

const LONGEST = 30_000;

// {found, error, again}: what `look(signal)` told last, and why the last look failed. `name` says what is
// looked at: another name begins anew.
export function usePoll(look, every, name) {
  const [state, setState] = useState({ name, found: null, error: null });
  const latest = useRef(look);
  latest.current = look;
  const nudge = useRef(() => {});
  useEffect(() => {
    let timer = null;
    let under = null;
    let wait = every;
    let isOver = false;
    async function turn() {
      clearTimeout(timer);
      timer = null;
      if (isOver || document.hidden || under !== null) return;
      under = new AbortController();
      const mine = under;
      try {
        const found = await latest.current(mine.signal);
        if (isOver || mine.signal.aborted) return;
        wait = every;
        setState({ name, found, error: null });
      } catch (error) {
        if (isOver || error.name === "AbortError") return;
        wait = Math.min(LONGEST, Math.max(wait, 1000) * 2);
        setState((before) => ({ name, found: before.name === name ? before.found : null, error }));
      } finally {
        if (under === mine) under = null;
        if (!isOver && !document.hidden) timer = setTimeout(turn, wait);
      }
    }
    function seen() {
      if (!document.hidden) { wait = every; turn(); } else { clearTimeout(timer); }
    }
    nudge.current = () => { wait = every; if (under !== null) { under.abort(); under = null; } turn(); };
    document.addEventListener("visibilitychange", seen);
    addEventListener("spoolrack-token", nudge.current);
    const nudged = nudge.current;
    turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
      if (under !== null) under.abort();
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("spoolrack-token", nudged);
    };
  }, [name, every]);
  const mine = state.name === name ? state : { found: null, error: null };
  return { found: mine.found, error: mine.error, again: () => nudge.current() };
}
