// Charts: a value over the range of one column, and the path of sizes.

// Values of a machine over the range of each column that it reads, all else as in the row.
function profiles(app, nPoints) {
  return app.columns.map((place) => {
    const cells = [...app.cells];
    const sweep = app.machines.sweep(place, nPoints);
    return {
      place,
      sweep,
      values: sweep.map((cell) => app.machines.evaluate(app.machine, ((cells[place] = cell), cells))),
    };
  });
}

// The profile of the column that moves a value most; null where none does.
function strongestProfile(found, value) {
  let best = null;
  for (const profile of found) {
    const numbers = profile.values.map((values) => values[value]);
    const width = Math.max(...numbers) - Math.min(...numbers);
    if (width > (best?.width ?? 0)) best = { ...profile, numbers, width };
  }
  return best;
}

// Points of a column for a function of the cells: its levels, or numbers over its range; `at` is that of the row itself.
function response(app, place, nPoints, valueOf) {
  const cells = [...app.cells];
  const points = app.machines.sweep(place, nPoints).map((cell) => {
    cells[place] = cell;
    return { cell, value: valueOf(app.machines.evaluate(app.machine, cells)) };
  });
  return { place, points, at: { cell: app.cells[place], value: valueOf(app.values) } };
}

const isStepped = (column) => column.kind === "category" || column.kind === "boolean";

function extentOf(responses) {
  const values = responses
    .flatMap((own) => [own.at.value, ...own.points.map((point) => point.value)])
    .filter(Number.isFinite);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
}

// Draws a response into a box: a curve over numbers and dates, a bar for each level of a category.
function responseChart(column, { points, at }, [low, high], { width, height, axes = false }) {
  const pad = axes ? { left: 52, right: 8, top: 8, bottom: 22 } : { left: 4, right: 4, top: 4, bottom: 4 };
  const inner = { width: width - pad.left - pad.right, height: height - pad.top - pad.bottom };
  const y = (value) => pad.top + inner.height * (1 - (value - low) / (high - low));
  const picture = svg("svg", { class: "response", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  if (!axes) picture.setAttribute("preserveAspectRatio", "none");
  const text = (content, attributes) => {
    const own = svg("text", attributes);
    own.append(content);
    picture.append(own);
  };
  if (axes) {
    picture.append(svg("path", { class: "axis", d: `M${pad.left},${pad.top}v${inner.height}h${inner.width}` }));
    for (const value of [low, high]) text(shownNumber(value), { class: "tick end", x: pad.left - 5, y: y(value) });
    if (low < 0 && high > 0)
      picture.append(svg("path", { class: "axis zero", d: `M${pad.left},${y(0)}h${inner.width}` }));
  }
  if (!points.length) return picture;
  if (isStepped(column)) {
    const step = inner.width / points.length;
    const base = y(Math.max(low, Math.min(high, 0)));
    points.forEach(({ cell, value }, i) => {
      const top = Math.min(y(value), base);
      picture.append(
        svg("rect", {
          class: cell === at.cell ? "bar now" : "bar",
          x: pad.left + step * (i + 0.12),
          width: step * 0.76,
          y: Math.min(top, y(value)) - 1,
          height: Math.abs(y(value) - base) + 2,
        }),
      );
      if (axes)
        text(shortened(shownCell(column, cell), Math.max(3, Math.floor(step / 7))), {
          class: "tick middle",
          x: pad.left + step * (i + 0.5),
          y: height - 9,
        });
    });
    return picture;
  }
  const [first, last] = [points[0].cell, points[points.length - 1].cell];
  const x = (cell) => pad.left + inner.width * Math.max(0, Math.min(1, (cell - first) / (last - first || 1)));
  const way = points.map(({ cell, value }) => `${x(cell).toFixed(1)},${y(value).toFixed(1)}`).join("L");
  picture.append(svg("path", { class: "curve", d: `M${way}`, "vector-effect": "non-scaling-stroke" }));
  if (at.cell !== null) {
    picture.append(
      svg("path", {
        class: "here",
        d: `M${x(at.cell)},${pad.top}v${inner.height}`,
        "vector-effect": "non-scaling-stroke",
      }),
    );
    if (axes) picture.append(svg("circle", { class: "now", cx: x(at.cell), cy: y(at.value), r: 4 }));
  }
  if (axes) {
    text(shownCell(column, first), { class: "tick", x: pad.left, y: height - 9 });
    text(shownCell(column, last), { class: "tick end", x: width - pad.right, y: height - 9 });
  }
  return picture;
}

// The score against the number of edges, with a marker at the size that is shown.
class PathChart {
  constructor(app) {
    this.app = app;
    this.host = document.getElementById("machine-path");
  }

  draw() {
    const { data, size } = this.app;
    const points = data.sizes
      .map((own, place) => ({ ...own, place }))
      .filter((own) => Number.isFinite(own.score) && own.edges > 0);
    if (points.length < 2) {
      this.host.hidden = true;
      return;
    }
    const [width, height, pad] = [340, 132, { left: 40, right: 14, top: 12, bottom: 26 }];
    const spread = (own) => own.score_std ?? 0;
    const low = Math.max(
      Math.min(...points.map((own) => own.score - spread(own))),
      Math.min(...points.map((own) => own.score)) - 0.15,
    );
    const high = Math.max(...points.map((own) => own.score + spread(own)));
    const logs = points.map((own) => Math.log(own.edges));
    const [first, last] = [Math.min(...logs), Math.max(...logs)];
    const x = (own) =>
      pad.left + ((width - pad.left - pad.right) * (Math.log(own.edges) - first)) / (last - first || 1);
    const y = (score) =>
      pad.top + (height - pad.top - pad.bottom) * (1 - (Math.max(low, score) - low) / (high - low || 1));
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    picture.setAttribute("aria-label", `${data.score_name} against the number of edges, for ${points.length} sizes`);
    const text = (content, attributes) => {
      const own = svg("text", attributes);
      own.append(content);
      picture.append(own);
    };
    picture.append(
      svg("path", { class: "axis", d: `M${pad.left},${pad.top}V${height - pad.bottom}H${width - pad.right}` }),
    );
    for (const score of [low, high])
      text(score.toFixed(2).replace("-", "−"), { class: "tick end", x: pad.left - 5, y: y(score) });
    text(data.score_name, { class: "tick", x: pad.left + 5, y: pad.top });
    const ends = [points[points.length - 1], points[0]];
    text(shownNumber(ends[0].edges), { class: "tick", x: pad.left, y: height - 10 });
    text(`${shownNumber(ends[1].edges)} edges`, { class: "tick end", x: width - pad.right, y: height - 10 });
    picture.append(
      svg("path", { class: "curve", d: `M${points.map((own) => `${x(own)},${y(own.score)}`).join("L")}` }),
    );
    for (const own of points) {
      picture.append(
        svg("path", { class: "spread", d: `M${x(own)},${y(own.score - spread(own))}V${y(own.score + spread(own))}` }),
      );
      const isHere = own.place === size;
      const dot = svg("circle", {
        class: `point${own.chosen ? " chosen" : ""}${isHere ? " now" : ""}${own.machine ? "" : " large"}`,
        cx: x(own),
        cy: y(own.score),
        r: isHere ? 6 : 3.5,
      });
      const title = svg("title");
      title.append(
        `${plural(own.edges, "edge", "edges")}, ${data.score_name} ${own.score.toFixed(3)}` +
          `${own.chosen ? ", chosen" : ""}${own.machine ? "" : ", too large to draw"}`,
      );
      dot.append(title);
      if (own.machine) dot.addEventListener("click", () => this.app.resize(own.place));
      picture.append(dot);
    }
    this.host.replaceChildren(picture);
  }
}
