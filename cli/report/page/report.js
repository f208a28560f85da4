// The page: its data come from the two JSON elements, and texts of them are set as texts, never as HTML.

const report = JSON.parse(document.getElementById('report-data').textContent);
const curveData = JSON.parse(document.getElementById('curve-data').textContent);
const kColors = ['#2f7ed8', '#e8702a', '#2ca25f', '#c23b80', '#8a63d2', '#b8930b', '#17a2b8', '#d9433f', '#7a8794', '#6b8e23'];
const colorOf = run => run < kColors.length ? kColors[run] : `hsl(${(run * 137.5) % 360} 60% 50%)`;

// What the reader has chosen; kept while the page loads itself again.
const kStateKey = 'levin report ' + location.pathname;
const state = Object.assign({hidden: [], smoothing: 0, x: 'step', y: 'linear', filter: '', theme: '', wide: []}, storedState());

function storedState() {
  try { return JSON.parse(sessionStorage.getItem(kStateKey)) || {}; } catch { return {}; }
}
function keepState() {
  try { sessionStorage.setItem(kStateKey, JSON.stringify(state)); } catch { /* a browser that stores nothing */ }
}

/// An element with properties and children; texts become text nodes.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter(child => child !== null));
  return element;
}

/// A cell's text; a number with more digits than are of use is rounded, and whole when the mouse is over it.
function cellText(text) {
  if (typeof text !== 'string' || text.length <= 9 || !/^-?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?$/.test(text)) return text ?? '–';
  return make('span', {title: text}, String(Number(Number(text).toPrecision(6))));
}

const isNumeric = text => text !== null && /^[-+]?[0-9.]+([eE][-+]?[0-9]+)?( (ns|us|ms|s|min|h|%))?$/.test(text);

/// A table in a box that scrolls. `rows`: lists of texts or nodes; null: no value.
function table(columns, rows, rowClasses = []) {
  const isRight = columns.map((_, i) => i > 0 && rows.some(row => isNumeric(row[i])) && rows.every(row => !row[i] || isNumeric(row[i])));
  const head = make('tr', {}, ...columns.map((name, i) => make('th', {className: isRight[i] ? 'number' : ''}, name)));
  const body = rows.map((row, r) => make('tr', {className: rowClasses[r] || ''}, ...row.map((cell, i) =>
    make('td', {className: (i === 0 ? 'key ' : '') + (cell === null ? 'none ' : '') + (isRight[i] ? 'number' : '')}, cellText(cell)))));
  return make('div', {className: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)));
}

function addSection(title, note, ...content) {
  const id = title.toLowerCase().replace(/ /g, '-');
  const heading = make('h2', {}, title + ' ', make('small', {}, note));
  document.getElementById('main').append(make('section', {id}, heading, ...content));
  document.getElementById('nav').append(make('a', {href: '#' + id}, title));
}

const runName = run => make('span', {}, make('span', {className: 'swatch', style: `background:${colorOf(run)}`}), report.runs[run].name);

function duration(seconds) {
  if (!seconds) return null;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
}

// ---- Curves ----

/// Steps of differences.
function summed(differences) {
  let sum = 0;
  return differences.map(difference => sum += difference);
}

const curvesOfMetric = report.metrics.map(() => []);
const epochsOfRun = report.runs.map(() => null);
for (const curve of curveData) {
  for (const key of ['x', 'rx']) if (curve[key]) curve[key] = summed(curve[key]);
  if (curve.m < 0) epochsOfRun[curve.r] = epochBegins(curve); else curvesOfMetric[curve.m].push(curve);
}

/// [step, epoch] where epochs begin, and at the end.
function epochBegins({x, y}) {
  const begins = [[0, y[0]]];
  for (let i = 1; i < x.length; ++i) if (y[i] !== y[i - 1]) begins.push([x[i - 1] + 1, y[i]]);
  const length = begins.length > 1 ? begins[begins.length - 1][0] - begins[begins.length - 2][0] : x[x.length - 1] + 1;
  const [step, epoch] = begins[begins.length - 1];
  begins.push([step + length, epoch + 1]);
  return begins;
}

/// The epoch at a step, with its part that is done.
function epochAt(run, step) {
  const begins = epochsOfRun[run];
  if (!begins) return step;
  let i = 0;
  while (i + 2 < begins.length && begins[i + 1][0] <= step) ++i;
  const [[step0, epoch0], [step1, epoch1]] = [begins[i], begins[i + 1]];
  return epoch0 + (step + 1 - step0) / (step1 - step0) * (epoch1 - epoch0);
}

const tip = document.getElementById('tip');
const view = {
  tip,
  get isLog() { return state.y === 'log'; },
  get xName() { return state.x; },
  showTip(event, rows) {
    tip.replaceChildren(make('table', {}, ...rows.slice(0, 24).map(([curve, ...texts]) =>
      make('tr', {}, make('td', {}, runName(curve.run)), ...texts.map(text => make('td', {}, text))))));
    tip.hidden = rows.length === 0;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${event.clientX + 16 + width > innerWidth ? Math.max(0, event.clientX - 16 - width) : event.clientX + 16}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - height - 8))}px`;
  },
};

/// What a chart draws of a metric, as the reader has chosen.
function shownCurves(metric) {
  return curvesOfMetric[metric].filter(curve => !state.hidden.includes(report.runs[curve.r].path)).map(curve => {
    const placed = steps => state.x === 'epoch' ? steps.map(step => epochAt(curve.r, step)) : steps;
    const isOfRanks = curve.rx !== undefined;
    const x = placed(curve.x || curve.rx);
    const shown = {run: curve.r, color: colorOf(curve.r), x, y: smoothed(curve.y || curve.ry, state.smoothing)};
    if (isOfRanks) return {...shown, bandX: placed(curve.rx), low: curve.rl, high: curve.rh, bandName: 'ranks', bandAlpha: 0.2};
    // What a smoothed line leaves out is no band of it.
    return state.smoothing ? shown : {...shown, bandX: x, low: curve.l, high: curve.h, bandName: 'from', bandAlpha: 0.12};
  });
}

const charts = new Map();  // by canvas
const visible = new Set();
const observer = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (isIntersecting) { visible.add(target); charts.get(target).draw(); } else visible.delete(target);
  }
}, {rootMargin: '200px'});

function redraw() { for (const canvas of visible) charts.get(canvas).draw(); }

function chartCard(metric, name) {
  const canvas = make('canvas');
  charts.set(canvas, new Chart(canvas, () => shownCurves(metric), view));
  observer.observe(canvas);
  const widen = make('button', {type: 'button', title: 'Wide or narrow'}, '⤢');
  const card = make('div', {className: 'card'}, make('h3', {}, make('span', {title: name}, name), widen), canvas);
  card.dataset.name = name.toLowerCase();
  const setWide = isWide => card.classList.toggle('wide', isWide);
  setWide(state.wide.includes(name));
  widen.addEventListener('click', () => {
    state.wide = state.wide.includes(name) ? state.wide.filter(other => other !== name) : [...state.wide, name];
    keepState();
    setWide(state.wide.includes(name));
    redraw();
  });
  return card;
}

function addCharts() {
  const hint = 'drag to zoom, double-click for all; bands: least to largest of ranks, or of the steps of a point';
  // Those of layers and the like come last, and layer 10 after layer 2.
  const order = (a, b) => a.name.includes('/') - b.name.includes('/') || a.name.localeCompare(b.name, 'en', {numeric: true});
  const metrics = report.metrics.map((metric, i) => ({...metric, i})).sort(order);
  for (const section of ['Metrics', 'Learning rate', 'Throughput', 'Memory']) {
    const cards = metrics.filter(metric => metric.section === section).map(({i, name}) => chartCard(i, name));
    if (cards.length) addSection(section, section === 'Metrics' ? hint : '', make('div', {className: 'charts'}, ...cards));
  }
}

// ---- Tables ----

function bestCheckpoint(run) {
  const best = run.checkpoints.find(checkpoint => checkpoint.monitor);
  return best ? `${best.monitor} ${shortNumber(best.score)}` : null;
}

function addRuns() {
  const columns = ['run', 'status', 'started', 'took', 'ranks', 'best', 'ended by', 'tags'];
  const rows = report.runs.map((run, i) => [runName(i), make('span', {className: run.status}, run.status), run.started || null,
    duration(run.seconds), String(run.ranks), bestCheckpoint(run), run.stop_reason || null, run.tags.join(', ') || null]);
  const messages = [];
  report.runs.forEach((run, i) => {
    const add = (className, text) => messages.push(make('div', {className: 'message ' + className}, runName(i), ': ' + text));
    if (run.failure) add('bad', run.failure);
    for (const warning of run.warnings.slice(0, 20)) add('', warning);
    if (run.warnings.length > 20) add('', `${run.warnings.length - 20} more warnings`);
    for (const problem of run.problems) add('bad', problem);
  });
  addSection('Runs', '', table(columns, rows), ...messages);
}

function addSettings(title, note, rows) {
  if (!rows.length) return;
  const columns = ['', ...report.runs.map((_, i) => runName(i))];
  const marks = title === 'Hyper-parameters' && report.runs.length > 1 ? rows.map(row => row.differs ? 'differs' : '') : [];
  addSection(title, note, table(columns, rows.map(({key, values}) => [key, ...values]), marks));
}

function addCheckpoints() {
  const rows = report.runs.flatMap((run, i) => run.checkpoints.map(({file, monitor, score}) =>
    [runName(i), make('span', {className: 'path'}, file), monitor || null, monitor ? shortNumber(score) : null]));
  if (rows.length) addSection('Checkpoints', '', table(['run', 'file', 'chosen by', 'score'], rows));
}

function profileBox(run, profiles) {
  const box = make('div');
  const show = ({tables}) => box.replaceChildren(...tables.map(({columns, rows}) => make('p', {}, table(columns, rows))));
  show(profiles[0]);
  if (profiles.length === 1) return make('div', {}, make('h3', {}, runName(run)), box);
  const choice = make('select', {}, ...profiles.map(({name, rank}) => make('option', {}, `${name}, rank ${rank}`)));
  choice.addEventListener('change', () => show(profiles[choice.selectedIndex]));
  return make('div', {}, make('h3', {}, runName(run), ' ', choice), box);
}

function addProfiles() {
  const boxes = report.runs.map(({profiles}, i) => profiles.length ? profileBox(i, profiles) : null).filter(box => box);
  if (boxes.length) addSection('Time', 'by action, and what ranks waited for each other', make('div', {className: 'columns'}, ...boxes));
}

// ---- Media ----

function mediaContent(kind, data) {
  if (kind === 'texts') return make('pre', {}, data);
  if (kind === 'tables') return table(data[0] || [], data.slice(1));
  if (kind === 'histograms') return histogram(data.slice(1));
  const image = make('img', {src: data, alt: ''});
  // The pixels of a digit are there to be seen.
  image.addEventListener('load', () => image.classList.toggle('small', kind === 'images' && image.naturalWidth < 130));
  return image;
}

/// Bars whose areas are the counts. `rows`: the upper end of each bucket, and its count; what is no number is told below.
function histogram(rows) {
  const numbers = rows.map(row => row.map(Number));
  const buckets = numbers.filter(([end, count]) => Number.isFinite(end) && Number.isFinite(count));
  const others = rows.filter((_, i) => !Number.isFinite(numbers[i][0])).map(([name, count]) => `${name}: ${count}`).join(', ');
  const ends = buckets.map(([end]) => end);
  const begins = ends.map((end, i) => i ? ends[i - 1] : end - ((ends[1] ?? end + 1) - end));
  const heights = buckets.map(([end, count], i) => count / (end - begins[i]));
  const low = begins[0], span = ends[ends.length - 1] - low, highest = Math.max(...heights);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 1000 400');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'histogram');
  heights.forEach((height, i) => {
    const bar = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    const place = {x: (begins[i] - low) / span * 1000, width: (ends[i] - begins[i]) / span * 1000, y: 400 - height / highest * 400,
                   height: height / highest * 400};
    for (const [name, value] of Object.entries(place)) bar.setAttribute(name, Number.isFinite(value) ? value : 0);
    svg.append(bar);
  });
  const ticks = make('div', {className: 'ends note'}, make('span', {}, shortNumber(low ?? null)), make('span', {}, others),
    make('span', {}, shortNumber(ends[ends.length - 1] ?? null)));
  return make('div', {}, svg, ticks);
}

function mediaCard({run, kind, key, items}) {
  const box = make('div');
  const label = make('output');
  const slider = make('input', {type: 'range', min: 0, max: items.length - 1, step: 1, value: items.length - 1});
  const show = () => {
    const {step, part, data} = items[slider.value];
    label.textContent = `step ${step}` + (part && ` · ${part}`);
    box.replaceChildren(mediaContent(kind, data));
  };
  slider.addEventListener('input', show);
  slider.hidden = items.length === 1;
  show();
  return make('div', {className: 'card'}, make('h3', {}, make('span', {title: key}, key)), runName(run), box, slider, label);
}

function addMedia() {
  const note = report.media_left_out ? `${report.media_left_out} files left out: no room within --max_megabytes, or unreadable` : '';
  const titles = {images: 'Images', figures: 'Figures', histograms: 'Histograms', texts: 'Texts', tables: 'Tables'};
  for (const [kind, title] of Object.entries(titles)) {
    const cards = report.media.filter(series => series.kind === kind).map(mediaCard);
    if (cards.length) addSection(title, '', make('div', {className: 'media'}, ...cards));
  }
  if (note) document.getElementById('main').append(make('p', {className: 'note'}, note));
}

// ---- What the reader chooses ----

function addLegend() {
  report.runs.forEach((run, i) => {
    const entry = make('button', {type: 'button', title: run.path + ': click to hide or show; with Shift alone'}, runName(i));
    entry.dataset.path = run.path;
    entry.addEventListener('click', event => {
      const paths = report.runs.map(other => other.path);
      const isHidden = state.hidden.includes(run.path);
      if (event.shiftKey) state.hidden = paths.filter(path => path !== run.path);
      else state.hidden = isHidden ? state.hidden.filter(path => path !== run.path) : [...state.hidden, run.path];
      applyState();
    });
    document.getElementById('legend').append(entry);
  });
}

function applyState() {
  keepState();
  const isDark = state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.classList.toggle('dark', isDark);
  for (const entry of document.querySelectorAll('#legend button')) entry.classList.toggle('off', state.hidden.includes(entry.dataset.path));
  for (const [id, value] of [['x-axis', state.x], ['y-axis', state.y]]) {
    for (const button of document.querySelectorAll(`#${id} button`)) button.classList.toggle('on', button.dataset.value === value);
  }
  document.getElementById('smoothing-value').textContent = Number(state.smoothing).toFixed(2);
  for (const card of document.querySelectorAll('.charts .card')) card.hidden = !card.dataset.name.includes(state.filter.toLowerCase());
  for (const charts of document.querySelectorAll('.charts')) charts.parentNode.hidden = !charts.querySelector('.card:not([hidden])');
  redraw();
}

function listen() {
  const filter = document.getElementById('filter'), smoothing = document.getElementById('smoothing');
  filter.value = state.filter;
  smoothing.value = state.smoothing;
  filter.addEventListener('input', () => { state.filter = filter.value; applyState(); });
  smoothing.addEventListener('input', () => { state.smoothing = Number(smoothing.value); applyState(); });
  for (const [id, key] of [['x-axis', 'x'], ['y-axis', 'y']]) {
    document.getElementById(id).addEventListener('click', event => {
      if (event.target.dataset.value) { state[key] = event.target.dataset.value; applyState(); }
    });
  }
  document.getElementById('theme').addEventListener('click', () => {
    state.theme = document.documentElement.classList.contains('dark') ? 'light' : 'dark';
    applyState();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyState);
  addEventListener('resize', redraw);
}

addRuns();
addCharts();
addSettings('What differs', 'between the configurations of the runs', report.settings);
addSettings('Hyper-parameters', '', report.hyperparams);
addCheckpoints();
addProfiles();
addMedia();
addLegend();
listen();
applyState();
// A page that is being looked at closely waits.
if (report.reloads) setInterval(() => { if (tip.hidden) location.reload(); }, 5000);
