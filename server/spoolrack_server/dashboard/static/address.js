// The place in the address: #/PAGE/NAME?KEY=VALUE. What one looks at has an address of its own, and the back
// button returns to it.

import { useEffect, useState } from "./vendor/htm/standalone.module.js";

export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  let name = "";
  try { name = decodeURIComponent(rest.join("/")); } catch { /* no name of ours */ }
  return { page: page || "queues", name, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function usePlace() {
  const [at, setAt] = useState(place());
  useEffect(() => {
    const moved = () => setAt(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return at;
}

// Change a part of the query; "" takes a key away. With `isReplaced` the back button passes over it.
export function seek(changes, isReplaced = false) {
  const { page, name, query } = place();
  const wanted = Object.entries({ ...query, ...changes }).filter(([, value]) => value !== "");
  const path = [page, ...(name ? [encodeURIComponent(name)] : [])].join("/");
  const hash = `#/${path}${wanted.length ? `?${new URLSearchParams(wanted)}` : ""}`;
  if (hash === location.hash) return;
  if (!isReplaced) { location.hash = hash; return; }
  history.replaceState(null, "", hash);
  dispatchEvent(new Event("hashchange"));
}
