// Time of the session: steps, play, progress, and going back, which opens a branch.

import {branch, step, stop} from "./broker.js";
import {DAY_MS, daysLater, isoMoment, marketTime, MINUTE_MS, when, whenWithWeekday} from "./format.js";
import {actButton, actOnce, errorLine, options, panel} from "./parts.js";
import {on, page} from "./state.js";

const {el, field} = kt;
const SPEEDS = [1, 2, 5, 10, 30, 60];
const MOST_CALLS = 5; // a second; faster play takes several ticks a call
const SECOND_MS = 1000;

export function playPanel() {
  const error = errorLine();
  const said = el("p.said", {role: "status"});
  const parts = {
    clock: el("strong.clock", {}),
    progress: el("progress", {
      id: "progress",
      max: 1,
      value: 0,
      "aria-label": "Progress of the session",
    }),
    ends: el("span.quiet", {}),
    speed: el("select", {id: "speed"}, options(SPEEDS.map((speed) => [speed, `${speed} ×`]))),
  };
  const player = makePlayer(parts, error);
  const move = (id, text, distanceOf) =>
    actButton(text, () => step(page.active, distanceOf(page.active)), error, {id});
  const buttons = [
    move("step-bar", "Step a bar", () => ({step: 1})),
    move("step-minute", "A minute", (session) => ({until_ts: later(session, MINUTE_MS)})),
    move("step-day", "To the next session", (session) => ({
      until_ts: later(session, daysAhead(session) * DAY_MS),
    })),
    player.button,
    actButton("End the session", () => stop(page.active), error, {id: "stop"}),
  ];
  const back = backForm(error, said, player);
  const draw = () => {
    const session = page.active;
    if (!session) return;
    drawClock(parts, session);
    for (const button of buttons) button.disabled = !session.isRunning;
    back.draw(session);
  };
  on("sessions", () => {
    player.pause();
    error.clear();
    draw();
  });
  on("market", draw);
  on("account", draw);
  return panel(
    "time",
    "Time",
    el("div.row", {}, parts.clock, parts.progress, parts.ends),
    el(
      "div.row.controls",
      {},
      el("div.row", {}, buttons, field("Speed", parts.speed)),
      back.element,
    ),
    error.element,
    said,
  );
}

function drawClock(parts, session) {
  const {clock, startTs, endTs, status} = session;
  const [from, now, to] = [startTs, clock, endTs].map((moment) => Date.parse(moment));
  kt.replace(parts.clock, whenWithWeekday(clock));
  parts.progress.value = to > from ? Math.min(1, Math.max(0, (now - from) / (to - from))) : 0;
  const state = status === "RUNNING" ? `ends ${when(endTs)}` : status.toLowerCase();
  kt.replace(parts.ends, `${session.frequency === "1m" ? "minutes" : "days"} · ${state}`);
}

const later = (session, milliseconds) => isoMoment(Date.parse(session.clock) + milliseconds);

const CLOSED = new Set((document.body.dataset.closed || "").split(" "));

/** Days to the market's next session: over weekends and holidays. */
function daysAhead(session) {
  const {day} = marketTime(session.clock);
  let ahead = 1;
  while (CLOSED.has(daysLater(day, ahead))) ahead += 1;
  return ahead;
}

/** Steps the session on show again and again; `pause` stops before the next call. */
function makePlayer(parts, error) {
  let turn = 0;
  let isPlaying = false;
  const button = kt.button("Play", () => (isPlaying ? pause() : play()), {
    class: "small",
    id: "play",
  });

  function pause() {
    turn += 1;
    isPlaying = false;
    kt.replace(button, "Play");
  }

  async function play() {
    const session = page.active;
    const mine = (turn += 1);
    isPlaying = true;
    kt.replace(button, "Pause");
    error.clear();
    try {
      let ticks = 1;
      while (mine === turn && session.isRunning) {
        const began = performance.now();
        await step(session, {step: ticks});
        const speed = Number(parts.speed.value);
        const least = SECOND_MS / Math.min(speed, MOST_CALLS);
        await pauseFor(least - (performance.now() - began));
        // as many as the time since then stands for, where the calls themselves take long
        const due = (speed * (performance.now() - began)) / SECOND_MS;
        ticks = Math.max(1, Math.min(speed, Math.round(due)));
      }
    } catch (problem) {
      error.show(problem);
    }
    if (mine === turn) pause();
  }

  return {button, pause};
}

const pauseFor = (milliseconds) =>
  new Promise((resolve) => window.setTimeout(resolve, Math.max(0, milliseconds)));

/** A slider and a field for a moment before the clock; the button opens a branch there. */
function backForm(error, said, player) {
  const moment = el("input", {
    type: "text",
    id: "back-moment",
    maxlength: "40",
    autocomplete: "off",
    required: true,
  });
  const slider = el("input", {type: "range", id: "back-slider", min: "0", step: "1"});
  const element = el("form.row.back", {"aria-label": "Go back"});
  const state = {session: null, isChosen: false};

  function momentOf(session) {
    const units = Number(slider.max) - Number(slider.value);
    const from = Date.parse(session.startTs);
    return isoMoment(Math.max(from, Date.parse(session.clock) - units * session.unitMs));
  }

  function say(session) {
    slider.setAttribute("aria-valuetext", when(momentOf(session)));
  }

  slider.addEventListener("input", () => {
    state.isChosen = Number(slider.value) < Number(slider.max);
    moment.value = momentOf(page.active);
    say(page.active);
  });
  moment.addEventListener("input", () => {
    state.isChosen = true;
  });
  async function open() {
    player.pause();
    const from = page.active;
    const opened = await branch(from, moment.value.trim());
    state.isChosen = false;
    kt.replace(said, `${opened.name} is open; ${from.name} stays as it is.`);
  }

  element.addEventListener("submit", (event) => {
    event.preventDefault();
    actOnce(element, error, open);
  });

  /** Follows the clock, unless a moment was chosen. */
  function draw(session) {
    if (session !== state.session) state.isChosen = false;
    state.session = session;
    const span = Date.parse(session.clock) - Date.parse(session.startTs);
    const units = Math.max(0, Math.ceil(span / session.unitMs));
    const chosen = state.isChosen ? Date.parse(moment.value) : NaN;
    const behind = Number.isNaN(chosen) ? 0 : Date.parse(session.clock) - chosen;
    slider.max = String(units);
    slider.value = String(units - Math.round(behind / session.unitMs));
    if (!state.isChosen) moment.value = momentOf(session);
    say(session);
  }

  kt.fill(
    element,
    field("Go back to", slider, ".grow"),
    field("Moment", moment),
    el("button.small", {type: "submit", id: "back-open"}, "Open a branch there"),
  );
  return {element, draw};
}
