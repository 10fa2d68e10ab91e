// The state of the page, and what its parts ask of it. This file comes last, in one function with all others.

const FUNCTION_TEXTS = {
  relu: "relu(z) = max(z, 0): z if z > 0, else 0.",
  leaky_relu: "leaky_relu(z): z if z > 0, else 0.01 z.",
  elu: "elu(z): z if z > 0, else exp(z) − 1.",
  gelu: "gelu(z): nearly z above 0, and nearly 0 below.",
  silu: "silu(z) = z · sigmoid(z): nearly z above 0, and nearly 0 below.",
  mish: "mish(z): nearly z above 0, and nearly 0 below.",
  softplus: "softplus(z) = log(1 + exp(z)).",
  tanh: "tanh(z): from −1 to 1.",
  sigmoid: "sigmoid(z) = 1 / (1 + exp(−z)): from 0 to 1.",
};

class App {
  constructor(data) {
    this.data = data;
    this.machines = new Machines(data);
    this.shown = data.sizes
      .map((own, place) => place)
      .filter((place) => data.sizes[place].machine)
      .reverse();
    this.selected = null;
    const typical = data.columns.map((column) => readCell(column, column.typical));
    this.rows = [
      { name: "a typical row", cells: typical },
      ...data.examples.map((row, i) => ({
        name: `example ${i + 1}`,
        cells: row.map((cell, place) => readCell(data.columns[place], cell)),
      })),
    ];
    this.row = this.rows[0];
    this.cells = [...this.row.cells];
    this.slider = document.getElementById("machine-size");
    this.choose(
      Math.max(
        0,
        data.sizes.findIndex((own) => own.chosen),
      ),
    );
    this.drawing = new Drawing(this);
    this.chart = new PathChart(this);
    this.panel = new Panel(this);
    this.whatIf = new WhatIf(this);
    this.slider.max = this.shown.length - 1;
    document.getElementById("machine-sizes").hidden = this.shown.length < 2;
    this.slider.addEventListener("input", () => this.resize(this.shown[Number(this.slider.value)]));
    document
      .getElementById("machine-chosen")
      .addEventListener("click", () => this.resize(data.sizes.findIndex((own) => own.chosen)));
    this.drawAll();
  }

  // State

  choose(place) {
    this.size = place;
    this.machine = this.data.sizes[place].machine;
    this.columns = this.machines.columnsOf(this.machine);
    this.compute();
  }

  compute() {
    this.values = this.machines.evaluate(this.machine, this.cells);
    this.prediction = this.machines.predict(this.machine, this.values);
    this.startPrediction = this.machines.predict(this.machine, this.machines.evaluate(this.machine, this.row.cells));
  }

  resize(place) {
    if (place === this.size) return;
    // Values of another size are other units; an input stays what it is.
    const kept =
      this.selected !== null &&
      this.selected < this.data.inputs.length &&
      this.data.sizes[place].machine.inputs.includes(this.selected);
    if (!kept && this.selected !== null) this.close(false);
    this.choose(place);
    this.drawAll();
  }

  setRow(place) {
    this.row = this.rows[place];
    this.cells = [...this.row.cells];
    this.changed();
  }

  setCell(place, cell) {
    this.cells[place] = cell;
    this.changed();
  }

  changed() {
    this.compute();
    this.drawing.update();
    this.panel.update();
    this.whatIf.update();
  }

  open(value, opener) {
    this.selected = value;
    this.opener = opener;
    this.panel.open();
    this.drawing.draw();
  }

  close(withFocus = true) {
    const value = this.selected;
    this.selected = null;
    this.panel.box.hidden = true;
    this.drawing.draw();
    if (withFocus) this.drawing.nodes.get(value)?.box.focus();
  }

  drawAll() {
    this.tellSize();
    this.chart.draw();
    this.drawing.draw();
    this.panel.update();
    this.whatIf.draw();
    this.tellEquations();
  }

  tellSize() {
    const own = this.data.sizes[this.size];
    this.slider.value = this.shown.indexOf(this.size);
    const score = Number.isFinite(own.score)
      ? `${own.score.toFixed(3).replace("-", "−")}${Number.isFinite(own.score_std) ? ` ± ${own.score_std.toFixed(3)}` : ""}`
      : null;
    const hidden = this.machine.units.length - this.machine.outputs.length;
    const facts = [
      [own.edges.toLocaleString("en"), own.edges === 1 ? "edge" : "edges"],
      [this.columns.length, this.columns.length === 1 ? "column" : "columns"],
      [hidden, hidden === 1 ? "hidden unit" : "hidden units"],
    ];
    if (score) facts.push([score, this.data.score_name]);
    this.slider.setAttribute("aria-valuetext", facts.map((fact) => fact.join(" ")).join(", "));
    document
      .getElementById("machine-facts")
      .replaceChildren(
        ...facts.map(([number, name]) =>
          element("div", { class: "fact" }, element("strong", {}, String(number)), element("span", {}, name)),
        ),
      );
    const button = document.getElementById("machine-chosen");
    button.disabled = own.chosen;
    button.textContent = own.chosen ? "chosen size" : "back to the chosen size";
  }

  tellEquations() {
    const { units, equations, notes } = this.machine;
    const lines = units.map((unit) => unit.equation ?? `${unit.name} = … (${unit.sources.length} terms)`);
    document.getElementById("machine-equations").textContent = [
      ...lines,
      ...equations,
      "",
      ...notes.map((note) => `# ${note}`),
    ].join("\n");
  }

  // Names

  unit(value) {
    return this.machine.units[value - this.data.inputs.length] ?? null;
  }

  nodeName(value) {
    const output = this.machine.outputs.indexOf(value);
    if (output >= 0) return this.outputName(output);
    if (value >= this.data.inputs.length) return this.unit(value).name;
    const input = this.data.inputs[value];
    const name = this.data.columns[input.column].name;
    return input.detail ? `${name} ${input.detail}` : name;
  }

  nodeKind(value) {
    const output = this.machine.outputs.indexOf(value);
    if (output >= 0)
      return `output${this.data.classes.length ? ", in log-odds" : this.data.link === "exp" ? ", on a logarithmic scale" : ""}`;
    if (value < this.data.inputs.length) return "encoded input";
    return `hidden unit in layer ${this.unit(value).layer}`;
  }

  targetName(target) {
    return this.data.targets[target] || (this.data.classes.length > 1 ? `y ${target + 1}` : "y");
  }

  outputName(place) {
    const { classes, link, outputs, multilabel, targets } = this.data;
    if (!classes.length) {
      if (outputs.length === 1) return targets[0] || "prediction";
      return targets.length === outputs.length ? targets[place] : outputs[place]; // quantiles have one target
    }
    if (link === "constant") return String(classes[0][0]);
    if (multilabel) return targets[place] || outputs[place];
    if (link === "sigmoid")
      return classes.length > 1 ? `${this.targetName(place)} = ${classes[place][1]}` : String(classes[0][1]);
    let first = 0;
    for (let own = 0; own < classes.length; own += 1) {
      if (place < first + classes[own].length) {
        const label = String(classes[own][place - first]);
        return classes.length > 1 ? `${this.targetName(own)} = ${label}` : label;
      }
      first += classes[own].length;
    }
    return outputs[place];
  }

  // What an output predicts: a number, or the probability of its class.
  outputNumber(place, prediction) {
    if (prediction.numbers) return prediction.numbers[place];
    if (this.data.link === "constant") return 1;
    if (this.data.link === "sigmoid") return prediction.probabilities[place][1];
    return prediction.probabilities.flat()[place];
  }

  outputText(place, prediction) {
    const number = this.outputNumber(place, prediction);
    return prediction.numbers
      ? { text: shownNumber(number), share: null }
      : { text: shownShare(number), share: number };
  }

  nodeValue(value) {
    const output = this.machine.outputs.indexOf(value);
    if (output >= 0) {
      const { text } = this.outputText(output, this.prediction);
      return this.prediction.numbers && this.data.link !== "exp"
        ? text
        : `${text} (${shownNumber(this.values[value])})`;
    }
    const unit = this.unit(value);
    if (unit)
      return this.values[value] === 0 && unit.function === "relu" ? "0" : shownNumber(this.values[value]);
    const column = this.data.inputs[value].column;
    return `${shownNumber(this.values[value])}, from ${shownCell(this.data.columns[column], this.cells[column])}`;
  }

  nodeLines(value) {
    const unit = this.unit(value);
    const lines = [this.nodeName(value), `${this.nodeKind(value)}; currently ${this.nodeValue(value)}`];
    if (!unit) return lines;
    const terms = unit.sources
      .map((source, i) => [source, unit.weights[i]])
      .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    for (const [source, weight] of terms.slice(0, 4))
      lines.push(`${signed(weight)} × ${shortened(this.nodeName(source), 40)}`);
    if (terms.length > 4) lines.push(`and ${terms.length - 4} more`);
    return lines;
  }

  nodeText(value) {
    return this.nodeLines(value).join(", ");
  }

  edgeLines(edge) {
    return [
      `${this.nodeName(edge.source)} → ${this.nodeName(edge.target)}`,
      `weight ${signed(edge.weight)}`,
      `currently adds ${signed(edge.weight * this.values[edge.source])}`,
    ];
  }

  functionText(unit) {
    return FUNCTION_TEXTS[unit.function] ?? "";
  }

  recipeText(value) {
    const input = this.data.inputs[value];
    const column = this.data.columns[input.column];
    const of = input.part ? `the ${input.part === "days" ? "day" : input.part} of ${column.name}` : column.name;
    if (input.what === "missing") return `1 if ${column.name} is missing, else 0.`;
    if (input.what === "unknown") return `1 if ${column.name} is missing or has an unknown level, else 0.`;
    if (input.what === "nothing") return "Always 0.";
    if (input.what === "table") {
      const shown = input.levels
        .slice(0, 8)
        .map((level, i) => `${shownNumber(input.numbers[i])} for ${level}`)
        .join(", ");
      return `${shown}${input.levels.length > 8 ? ", …" : ""}; ${shownNumber(input.missing)} if it is missing, ${shownNumber(input.other)} for any other level.`;
    }
    const filled = `; ${shownNumber(input.fill)} if it is missing.`;
    if (input.method === "identity") return `${of}, unchanged${filled}`;
    if (input.method === "knots") return `${of}, mapped by its quantile in the training rows${filled}`;
    const center = input.part === "days" ? dateText(input.center, false) : shownNumber(input.center);
    const scaled = `(${of} − ${center}) / ${shownNumber(input.scale)}`;
    return `${input.method === "smooth" ? `${scaled}, with large values damped` : scaled}${filled}`;
  }

  // What small curves show, of the first target: a number, or the probability of the class that is predicted.
  curveOf() {
    const { classes, multilabel } = this.data;
    if (this.prediction.numbers) {
      const name = this.outputName(0);
      return {
        text: name === "prediction" ? name : `prediction of ${name}`,
        number: (values) => this.machines.predict(this.machine, values).numbers[0],
      };
    }
    const part = this.prediction.probabilities[0];
    const place = part.length === 2 ? 1 : part.indexOf(Math.max(...part));
    const label = classes.length > 1 ? `${this.targetName(0)} = ${classes[0][place]}` : classes[0][place];
    return {
      text: `probability of ${multilabel ? this.outputName(0) : label}`,
      number: (values) => this.machines.predict(this.machine, values).probabilities[0][place],
    };
  }

  predictionText() {
    const { numbers, probabilities, labels } = this.prediction;
    if (numbers) return numbers.map((value, i) => `${this.outputName(i)} ${shownNumber(value)}`).join(", ");
    return labels.map((label, target) => `${label}, ${shownShare(Math.max(...probabilities[target]))}`).join("; ");
  }
}

const app = new App(JSON.parse(document.getElementById("machine-data").textContent));

// For curious users and for tests: the prediction for a row, an object from column names to cells (null: missing), of
// the machine at a place of `sizes`; without one, of the size that is shown.
window.tabgnmMachine = {
  data: app.data,
  predict(row, size = app.size) {
    const { machine } = app.data.sizes[size];
    if (!machine) throw new RangeError(`the machine of size ${size} is too large to be part of this page`);
    const needed = new Set(app.machines.columnsOf(machine));
    const cells = app.data.columns.map((column, place) => {
      if (!needed.has(place)) return null;
      if (!Object.hasOwn(row, column.name)) throw new TypeError(`column ${JSON.stringify(column.name)} is missing from the row`);
      return readCell(column, row[column.name]);
    });
    return app.machines.predict(machine, app.machines.evaluate(machine, cells));
  },
};
