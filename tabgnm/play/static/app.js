// The page: connects the server, the machine, the plane, the curve and the controls.

import { Chart } from "./chart.js";
import { Controls } from "./controls.js";
import { number, onTheme, setScale, shortened } from "./drawing.js";
import { Machine } from "./machine.js";
import { Names } from "./names.js";
import { Plane } from "./plane.js";
import { listen, post } from "./stream.js";

const at = (id) => document.getElementById(id);
const CAPTION = "Color: predicted class, paler if less certain. Line: decision boundary. "
  + "Dots: training points. Rings: held-out points.";

const NO_EDGES = "No edge is left, so the machine learns nothing more. Lower the penalty and press reset.";

let frame, names, plane, machine;
const chart = new Chart(at("chart"));
const controls = new Controls(at("datasets"), at("sliders"), (settings) => send("settings", settings));

function notify(text) {
  at("notice").textContent = text;
}

// One after the other: of two values of a slider, the later one has to arrive last.
let lastSent = Promise.resolve();

function send(path, message) {
  lastSent = lastSent.then(() => post(path, message)).catch((error) => notify(error.message));
}

function welcome(message) {
  setScale(message.scale);
  controls.build(message);
  controls.draw();
  plane ??= new Plane(at("plane"), message.grid);
  machine ??= new Machine(at("machine"), message.grid, showNode);
}

function points(message) {
  names = new Names(message);
  plane.setPoints(message);
  at("classes").replaceChildren(...message.classes.map((name, i) => {
    const [own, swatch] = [document.createElement("span"), document.createElement("i")];
    swatch.style.background = `var(--class-${i})`;
    own.append(swatch, shortened(name, 20));
    own.title = name;
    return own;
  }));
}

function showFrame(message) {
  frame = message;
  names.nLayers = frame.n_layers;
  controls.setFrame(frame);
  plane.setFrame(frame);
  machine.setFrame(frame, names);
  chart.setFrame(frame);
  at("epoch").textContent = frame.epoch;
  at("accuracy").textContent = `${(100 * frame.accuracy[1]).toFixed(1)} %`;
  at("edges").textContent = frame.n_edges;
  at("possible-edges").textContent = ` of ${frame.n_possible_edges}`;
  at("meter").style.transform = `scaleX(${frame.n_edges / frame.n_possible_edges})`;
  at("train-loss").textContent = number(frame.loss[0]);
  at("test-loss").textContent = number(frame.loss[1]);
  at("play").setAttribute("aria-pressed", frame.running);
  at("play").setAttribute("aria-label", frame.running ? "Pause" : "Play");
  at("play").classList.toggle("fresh", frame.epoch === 0 && !frame.running);
  notify(frame.notice || (frame.n_edges ? "" : NO_EDGES));
  showNode(machine.shown);
}

function showNode(id) {
  const shown = id && machine.described(id);
  plane.show(shown ? shown.node : null);
  at("plane-title").textContent = shown ? "What this node computes" : "Prediction";
  at("caption").replaceChildren(...(shown ? names.formula(shown) : [CAPTION]));
}

const act = (action) => send("action", { action });
const actions = { play: () => act(frame?.running ? "pause" : "play"), step: () => act("step"), reset: () => act("reset") };
for (const [id, run] of Object.entries(actions)) at(id).addEventListener("click", run);

// Space is for play, not for the button that the mouse has pressed before.
document.addEventListener("click", (event) => {
  if (event.detail > 0) event.target.closest("button:not(.node)")?.blur();
});

const KEYS = { " ": "play", s: "step", r: "reset" };
document.addEventListener("keydown", (event) => {
  const name = KEYS[event.key.toLowerCase()];
  if (!name || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  // Space on a button presses that button, except on nodes, where nothing is to be pressed.
  if (event.key === " " && event.target.closest("button:not(.node)")) return;
  event.preventDefault();
  actions[name]();
});

onTheme(() => { controls.draw(); if (frame) showFrame(frame); });
listen({ welcome, points, frame: showFrame }, notify);
