// Views in two groups: what there is to read, and how the work goes.
const VIEWS = [
  ["Read", [["read", "Newest"], ["days", "Days"], ["projects", "Projects"], ["digests", "Digests"], ["ask", "Ask"]]],
  ["Work", [["overview", "Overview"], ["requests", "Requests"], ["quarantine", "Quarantine"], ["providers", "Providers"], ["compaction", "Snapshots"]]],
];
const HOME = "read";
const routes = { read, days, projects, summary, digests, digest, ask, overview, requests, request, quarantine, providers, compaction, run };
const parents = { request: "requests", summary: "read", digest: "digests", run: "compaction" };

// The links stay the same elements, so that the keyboard keeps its place.
const links = [];
for (const [group, views] of VIEWS) {
  const box = h("div", { class: "views" }, h("span", { class: "group" }, group));
  for (const [name, title] of views) {
    const n = h("span", { class: "count" });
    const link = h("a", { href: `#/${name}`, class: name === "ask" ? "acts" : null }, title, n);
    links.push({ name, n, link });
    box.append(link);
  }
  document.getElementById("nav").append(box);
}
const here = () => (location.hash.replace(/^#\/?/, "") || HOME).split("?");
function nav(current) {
  const counts = status && { requests: status.requests.open, quarantine: status.quarantined };
  for (const { name, n, link } of links) {
    n.textContent = counts?.[name] ? short(counts[name]) : "";
    const isHere = name === (parents[current] || current);
    if (isHere === link.hasAttribute("aria-current")) continue;
    if (!isHere) { link.removeAttribute("aria-current"); continue; }
    link.setAttribute("aria-current", "page");
    const box = document.getElementById("nav");
    box.scrollLeft = link.offsetLeft - box.offsetLeft - (box.clientWidth - link.offsetWidth) / 2;
  }
}
function fail(error) {
  show(h("div", { class: "error", role: "alert" }, error.message));
}
async function route() {
  const mine = ++turn;
  live = () => {};
  const [path, query] = here();
  const [given, ...rest] = path.split("/");
  const name = Object.hasOwn(routes, given) ? given : HOME;
  nav(name);
  try {
    await routes[name](Object.fromEntries(new URLSearchParams(query || "")), decodeURIComponent(rest.join("/")));
  } catch (error) {
    if (mine === turn) fail(error);
  }
  document.body.dataset.ready = name;
}
// Pause and resume stand beside the state of the service.
const state = document.getElementById("state"), pause = document.getElementById("pause");
pause.addEventListener("click", async () => {
  pause.disabled = true;
  try { await act(status?.paused.length ? "resume" : "pause"); await look(); } catch (error) { state.textContent = error.message; }
  pause.disabled = false;
});
async function look() {
  status = await get("status");
  document.getElementById("home").textContent = `\u200e${status.home}`;
  const paused = status.paused.length > 0;
  state.textContent = paused ? `paused: ${status.paused.map(words).join(", ")}` : status.requests.open > 0 ? `${count(status.requests.open)} open` : "up to date";
  state.className = `badge ${paused ? "warn" : "good"}`;
  pause.textContent = paused ? "Resume" : "Pause";
  nav(here()[0].split("/")[0]);
}
async function poll() {
  try {
    await look();
    await live();
  } catch (error) {
    state.textContent = /^starting/.test(error.message) ? error.message : "no answer";
    state.className = "badge bad";
  }
  setTimeout(poll, POLL_MS);
}
async function begin() {
  const given = /^#token=([0-9a-f]+)(?:&view=([^&]*))?$/.exec(location.hash);
  if (given) {
    // The token leaves the address, so that nobody reads or copies it from there.
    history.replaceState(null, "", `#${given[2] || `/${HOME}`}`);
    keep(given[1]);
  }
  if (token) await act("check").then(() => keep(token)).catch(() => {});
  await look().catch(() => {});
  await route();
  setTimeout(poll, POLL_MS);
}
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) return location.reload();
  route();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(input|textarea|select)$/i.test(event.target.tagName)) return;
  const box = main.querySelector("input[type=search]");
  event.preventDefault();
  if (box) box.focus(); else location.hash = "#/read";
});
begin();
