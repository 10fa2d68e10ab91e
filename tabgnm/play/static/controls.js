// Data sets and sliders. What they show is what the server says; what the user changes is sent to it.

import { colors, css, sharp } from "./drawing.js";

const DATASETS = {
  xor: { name: "XOR", help: "Four clusters; opposite corners have the same color." },
  moons: { name: "Moons", help: "Two interlocking half circles." },
  circles: { name: "Circles", help: "One color surrounds the other." },
  spiral: { name: "Spiral", help: "Two intertwined arms: the hardest problem. Try 16 nodes and 3 layers." },
  yours: { name: "Yours", help: "Two columns of your table." },
};

const PATIENCE = 2000; // milliseconds until a value that the server does not confirm is replaced by what it says
const percent = (value) => `${Math.round(100 * value)} %`;
const SLIDERS = [
  { setting: "noise", name: "Noise", help: "How far points are scattered. With much noise, no model can classify all of them correctly.", format: percent, levels: steps(0, 1, 0.05) },
  { setting: "n_nodes", name: "Nodes", help: "Number of nodes of the graph, including inputs, bias and outputs." },
  { setting: "n_layers", name: "Layers", help: "Number of rounds of message passing. With one layer, the boundary is a straight line." },
  { setting: "penalty", name: "Penalty", help: "Pulls all weights towards 0. Edges that contribute little vanish.", levels: [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1] },
  { setting: "learning_rate", name: "Learning rate", help: "Size of each update. Training is slow with small values, and unstable with large ones.", levels: [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1] },
];

function steps(low, high, step) {
  return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => Math.round((low + i * step) * 1e6) / 1e6);
}

export class Controls {
  constructor(datasets, sliders, send) {
    this.homes = { datasets, sliders };
    this.send = send;
    this.shown = new Map(); // setting -> how to show a value
  }

  // Built once, when the server has said what there is.
  build({ datasets, bounds }) {
    if (this.shown.size) return;
    this.buttons = datasets.map((name) => this.datasetButton(name));
    this.homes.datasets.append(...this.buttons);
    for (const slider of SLIDERS) this.homes.sliders.append(this.slider(slider, bounds[slider.setting]));
  }

  datasetButton(name) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "dataset";
    button.dataset.name = name;
    button.title = DATASETS[name].help;
    button.append(document.createElement("canvas"), DATASETS[name].name);
    button.addEventListener("click", () => this.send({ dataset: name }));
    return button;
  }

  slider({ setting, name, help, levels, format = String }, [low, high]) {
    const values = (levels ?? steps(low, high, 1)).filter((value) => low <= value && value <= high);
    const home = document.createElement("div");
    home.className = "slider";
    const [label, output, input, text] = ["label", "output", "input", "p"].map((tag) => document.createElement(tag));
    Object.assign(input, { type: "range", id: setting, min: 0, max: values.length - 1, step: 1, title: help });
    Object.assign(text, { id: `${setting}-help`, textContent: help });
    input.setAttribute("aria-describedby", text.id);
    label.htmlFor = output.htmlFor = setting;
    label.append(name, output);
    home.append(label, input, text);
    const show = (value) => {
      output.textContent = format(value);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    let sent = { value: null, until: 0 }; // frames that were on their way then still have the old value
    input.addEventListener("input", () => {
      const value = values[input.value];
      sent = { value, until: performance.now() + PATIENCE };
      show(value);
      this.send({ [setting]: value });
    });
    this.shown.set(setting, (value) => {
      if (value === sent.value) sent.until = 0;
      if (performance.now() < sent.until || input.matches(":active")) return;
      const distance = values.map((own) => Math.abs(own - value));
      input.value = distance.indexOf(Math.min(...distance));
      show(value);
    });
    return home;
  }

  setFrame({ settings }) {
    for (const [setting, show] of this.shown) show(settings[setting]);
    for (const button of this.buttons) button.setAttribute("aria-pressed", button.dataset.name === settings.dataset);
    const noise = document.getElementById("noise");
    noise.disabled = settings.dataset === "yours"; // a table is as noisy as it is
    noise.parentElement.classList.toggle("off", noise.disabled);
  }

  draw() {
    for (const button of this.buttons ?? []) drawPreview(button.firstChild, button.dataset.name);
  }
}

// A small picture of a data set.
function drawPreview(canvas, name) {
  const { context, width } = sharp(canvas);
  let seed = 3;
  const random = () => ((seed = (seed * 16807) % 2147483647) / 2147483647);
  for (let i = 0; i < 56; i++) {
    const [x, y, label] = previewPoint(name, i, random);
    context.beginPath();
    context.arc(width * (0.5 + 0.4 * x), width * (0.5 - 0.4 * y), width / 26, 0, 2 * Math.PI);
    context.fillStyle = css(colors.classes[label]);
    context.fill();
  }
}

function previewPoint(name, i, random) {
  const label = i % 2;
  const turn = random();
  const near = () => 0.1 * (random() + random() - 1);
  if (name === "xor") {
    const [right, up] = [i % 4 < 2 ? 1 : -1, (i % 4 < 2) === (label === 1) ? -1 : 1];
    return [right * (0.5 + 3.4 * near()), up * (0.5 + 3.4 * near()), label];
  }
  if (name === "moons") {
    const [x, y] = [Math.cos(Math.PI * turn), Math.sin(Math.PI * turn)];
    return label ? [0.33 - 0.66 * x + near(), 0.22 - 0.66 * y + near(), 1] : [-0.33 + 0.66 * x + near(), -0.22 + 0.66 * y + near(), 0];
  }
  if (name === "circles") {
    const radius = label ? 0.36 : 0.92;
    return [radius * Math.cos(2 * Math.PI * turn) + near(), radius * Math.sin(2 * Math.PI * turn) + near(), label];
  }
  if (name === "spiral") {
    const angle = 3.5 * Math.PI * (i / 56) + Math.PI * label;
    return [(0.06 + i / 58) * Math.sin(angle), (0.06 + i / 58) * Math.cos(angle), label];
  }
  return [((i % 7) - 3) / 3.4, (Math.floor(i / 8) - 3) / 3.4, (i * 7 + Math.floor(i / 8)) % 3 ? 1 : 0]; // a table
}
