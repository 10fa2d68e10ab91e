// Where nodes and edges of the drawing are: layers from left to right, ordered so that edges cross little.

const MAX_DRAWN = 200; // edges that are drawn at first
const NARROWEST = 680; // as laid out
const SMALLEST = 0.8; // to which a drawing is shrunk to fit; if this is not enough, it scrolls
const CARD = { left: 214, right: 186, row: 25, gap: 9 };
const HIDDEN = { radius: 14, gap: 44, least: 27 };
const OUTPUT = { most: 10, gap: 52, least: 31 }; // more outputs have a line each instead of two
// Units of machines with few of them are tiles with a curve: what they respond to most.
const TILE = { most: 18, width: 64, height: 32, gap: 62, least: 50, staggered: 34 };

// Which edges and nodes of a machine to draw, with the relative size of each weight among those into its layer.
function chosenEdges(data, machine, most) {
  const nInputs = data.inputs.length;
  const outputs = new Set(machine.outputs);
  const edges = [];
  machine.units.forEach((unit, place) => {
    const target = nInputs + place;
    const layer = outputs.has(target) ? "output" : unit.layer;
    unit.sources.forEach((source, i) => edges.push({ source, target, layer, weight: unit.weights[i] }));
  });
  const largest = new Map();
  for (const edge of edges) largest.set(edge.layer, Math.max(largest.get(edge.layer) ?? 0, Math.abs(edge.weight)));
  for (const edge of edges) edge.size = Math.abs(edge.weight) / (largest.get(edge.layer) || 1);
  const drawn = [...edges].sort((a, b) => b.size - a.size).slice(0, most);
  return { all: edges, drawn };
}

// Places of all nodes: groups of inputs, layers of hidden units, outputs; ordered so that edges cross little.
function arranged(data, machine, edges, width) {
  const nInputs = data.inputs.length;
  const seen = new Set(edges.flatMap((edge) => [edge.source, edge.target]));
  const outputs = new Set(machine.outputs);
  const groups = new Map();
  for (const place of machine.inputs.filter((own) => seen.has(own))) {
    const column = data.inputs[place].column;
    if (!groups.has(column)) groups.set(column, { column, members: [] });
    groups.get(column).members.push(place);
  }
  const layers = new Map();
  machine.units.forEach((unit, place) => {
    const value = nInputs + place;
    if (outputs.has(value) || !seen.has(value)) return;
    if (!layers.has(unit.layer)) layers.set(unit.layer, []);
    layers.get(unit.layer).push(value);
  });
  const hidden = [...layers.keys()].sort((a, b) => a - b).map((layer) => layers.get(layer));
  const neighbours = new Map();
  const remember = (from, to, size) => {
    if (!neighbours.has(from)) neighbours.set(from, []);
    neighbours.get(from).push([to, size]);
  };
  for (const edge of edges) {
    remember(edge.source, edge.target, edge.size);
    remember(edge.target, edge.source, edge.size);
  }
  const outputStep = machine.outputs.length > OUTPUT.most ? OUTPUT.least : OUTPUT.gap;
  let columns = [...groups.values()];
  const roomy = (width - CARD.left - CARD.right) / (hidden.length + 1) > 2 * TILE.width + 60;
  let tight = false; // whether tiles stand in two rows
  let height = 0;
  let y = new Map();
  const place = () => {
    const single = (group) => group.members.length === 1 && data.inputs[group.members[0]].detail === "";
    const heightOf = (group) => (single(group) ? 1 : group.members.length + 1) * CARD.row + 8;
    const inputHeight = columns.reduce((sum, group) => sum + heightOf(group) + CARD.gap, 0);
    const most = Math.max(0, ...hidden.map((layer) => layer.length));
    const [wide, least] =
      most <= TILE.most ? [TILE.gap, roomy ? TILE.staggered : TILE.least] : [HIDDEN.gap, HIDDEN.least];
    const gap = most * wide <= Math.max(inputHeight, 600) ? wide : least;
    tight = gap === TILE.staggered;
    height = Math.max(inputHeight, most * gap, machine.outputs.length * outputStep, 150) + 24;
    y = new Map();
    let top = (height - inputHeight) / 2;
    for (const group of columns) {
      group.top = top;
      group.height = heightOf(group);
      group.single = single(group);
      group.members.forEach((value, i) => y.set(value, top + 4 + CARD.row * (i + (group.single ? 0.5 : 1.5))));
      top += group.height + CARD.gap;
    }
    for (const layer of hidden) {
      // Short layers are spread out, long ones fill the height.
      const own = Math.max(gap, Math.min((height - 24) / layer.length, 110));
      layer.forEach((value, i) => y.set(value, height / 2 + (i - (layer.length - 1) / 2) * own));
    }
    const step = Math.max(outputStep, Math.min((height - 24) / machine.outputs.length, 110));
    machine.outputs.forEach((value, i) => y.set(value, height / 2 + (i - (machine.outputs.length - 1) / 2) * step));
  };
  const mean = (values) => {
    const near = values.flatMap((value) => neighbours.get(value) ?? []).filter(([other]) => y.has(other));
    const total = near.reduce((sum, [, size]) => sum + size, 0);
    return total ? near.reduce((sum, [other, size]) => sum + size * y.get(other), 0) / total : height / 2;
  };
  const byMean = (list, membersOf) => {
    const means = new Map(list.map((own) => [own, mean(membersOf(own))]));
    list.sort((a, b) => means.get(a) - means.get(b));
  };
  place();
  for (let sweep = 0; sweep < 6; sweep += 1) {
    for (const layer of sweep % 2 ? [...hidden].reverse() : hidden) {
      byMean(layer, (value) => [value]);
      place();
    }
    byMean(columns, (group) => group.members);
    for (const group of columns) byMean(group.members, (value) => [value]);
    place();
  }
  const x = new Map();
  const left = CARD.left;
  const right = width - CARD.right;
  columns.forEach((group) => group.members.forEach((value) => x.set(value, left)));
  hidden.forEach((layer, i) =>
    layer.forEach((value, j) => {
      // Neighbours in a crowded layer stand aside, so that edges can be told apart.
      const side = tight ? TILE.width / 2 + 5 : 16;
      const aside = layer.length > (tight ? TILE.most / 2 : 14) ? (j % 2 ? side : -side) : 0;
      x.set(value, left + ((right - left) * (i + 1)) / (hidden.length + 1) + aside);
    }),
  );
  machine.outputs.forEach((value) => x.set(value, right));
  return { groups: columns, hidden, x, y, height, tight, tiled: hidden.every((layer) => layer.length <= TILE.most) };
}
