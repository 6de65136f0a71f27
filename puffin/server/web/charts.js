// The drawings of the page, as SVG: a bar with its bounds, a line over time with its band, and a histogram.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function drawing(width, height, label) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" });
}

/** A bar from 1 to `ndv` on a logarithmic scale that ends at `most`, and a whisker from `lower` to `upper`. */
export function bar({ ndv, lower, upper, exact }, most) {
  const width = 300, height = 18, middle = height / 2;
  const at = (value) => (width * Math.log10(Math.max(value, 0) + 1)) / Math.log10(Math.max(most, 1) + 1);
  const svg = drawing(width, height, `${ndv}, between ${lower} and ${upper}`);
  svg.append(
    shape("rect", { class: "track", x: 0, y: 4, width, height: height - 8, rx: 2 }),
    shape("rect", { class: "fill", x: 0, y: 4, width: at(ndv), height: height - 8, rx: 2 }),
  );
  if (!exact) {
    const [left, right] = [at(lower), at(upper)];
    svg.append(
      shape("path", {
        class: "whisker",
        "vector-effect": "non-scaling-stroke",
        d: `M${left} ${middle}H${right}M${left} 2V${height - 2}M${right} 2V${height - 2}`,
      }),
    );
  }
  return svg;
}

/** The distinct values of `points` over time, with the band of their bounds; from 0, so that heights can be compared. */
export function history(points, format) {
  const width = 860, height = 240, left = 70, right = 24, top = 14, bottom = 34;
  const times = points.map((point) => Date.parse(point.timestamp));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const most = niceCeiling(Math.max(...points.map((point) => point.upper), 1));
  const x = (time) => (first === last ? (left + width - right) / 2 : left + ((width - left - right) * (time - first)) / (last - first));
  const y = (value) => height - bottom - ((height - top - bottom) * value) / most;
  const svg = drawing(width, height, `${points.length} points`);
  svg.setAttribute("preserveAspectRatio", "xMidYMid meet");

  for (let i = 0; i <= 4; i++) {
    const value = (most * i) / 4;
    svg.append(
      shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      shape("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    );
  }
  for (const [time, anchor] of first === last ? [[first, "middle"]] : [[first, "start"], [last, "end"]]) {
    const label = new Date(time).toISOString().slice(0, 16).replace("T", " ");
    svg.append(shape("text", { x: x(time), y: height - 12, "text-anchor": anchor }, `${label} UTC`));
  }

  const along = (key) => points.map((point, i) => `${x(times[i])} ${y(point[key])}`);
  svg.append(
    shape("path", { class: "band", d: `M${[...along("lower"), ...along("upper").reverse()].join("L")}Z` }),
    shape("path", { class: "line", d: `M${along("ndv").join("L")}` }),
  );
  points.forEach((point, i) => {
    const dot = shape("circle", { class: "dot", cx: x(times[i]), cy: y(point.ndv), r: 4 });
    dot.append(shape("title", {}, `${format(point.ndv)} (${format(point.lower)} to ${format(point.upper)}), snapshot ${point["snapshot-id"]}`));
    svg.append(dot);
  });
  return svg;
}

/** The rows of each bucket, from 0; `name` makes text of a value. */
export function histogram(buckets, name, format) {
  const width = 860, height = 200, left = 70, right = 24, top = 14, bottom = 34;
  const most = niceCeiling(Math.max(...buckets.map((bucket) => bucket.rows), 1));
  const step = (width - left - right) / buckets.length;
  const y = (value) => height - bottom - ((height - top - bottom) * value) / most;
  const svg = drawing(width, height, `${buckets.length} buckets`);
  svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
  for (let i = 0; i <= 2; i++) {
    const value = (most * i) / 2;
    svg.append(
      shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      shape("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    );
  }
  buckets.forEach((bucket, i) => {
    const top = y(bucket.rows);
    const rect = shape("rect", { class: "fill bucket", x: left + i * step + 1, y: top, width: Math.max(step - 2, 1), height: height - bottom - top });
    const values = bucket.first === bucket.last ? name(bucket.first) : `${name(bucket.first)} to ${name(bucket.last)}`;
    rect.append(shape("title", {}, `${values}: ${format(bucket.rows)} rows (${format(bucket.lower)} to ${format(bucket.upper)})`));
    svg.append(rect);
  });
  const ends = [[left, "start", buckets[0].first], [width - right, "end", buckets[buckets.length - 1].last]];
  for (const [x, anchor, value] of ends) {
    svg.append(shape("text", { x, y: height - 12, "text-anchor": anchor }, name(value).slice(0, 40)));
  }
  return svg;
}

function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((step) => step * power).find((step) => step >= value);
}
