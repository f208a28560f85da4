// The page: its data come from the two JSON elements, and texts of them are set as texts, never as HTML.

const report = JSON.parse(document.getElementById('report-data').textContent);
const curveData = JSON.parse(document.getElementById('curve-data').textContent);
// Colours that can be distinguished, also with red-green colour blindness; each theme has its own.
const kColors = 8;
const colorOf = run => run < kColors ? `var(--run-${run})` : `hsl(${(run * 137.5) % 360} 60% var(--run-lightness))`;
/// The same where variables are not known: on a canvas.
function plainColor(color) {
  const style = getComputedStyle(document.documentElement);
  return color.replace(/var\((--[-a-z0-9]+)\)/, (_, name) => style.getPropertyValue(name).trim());
}

// The reader's choices, which survive a reload of the page.
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

const textOf = cell => cell instanceof Node ? cell.textContent : cell;
const isNumeric = text => text !== null && /^[-+]?[0-9.]+([eE][-+]?[0-9]+)?( (ns|us|ms|s|min|h|%))?$/.test(text);

/// What a cell is sorted by: the node's own key, else its text, as a number where it is one.
function sortKey(cell) {
  const text = cell === null ? '' : cell instanceof Node ? cell.dataset?.key ?? cell.textContent : String(cell);
  return text === '' ? null : Number.isFinite(Number(text)) ? Number(text) : text;
}
const keyed = (key, node) => { node.dataset.key = key; return node; };

/// Below zero where `one` comes before `other`: numbers, then texts; what has no value comes last in both directions.
function compareKeys(one, other, isDown) {
  if (one === null || other === null) return (one === null) - (other === null);
  const isText = key => typeof key === 'string';
  const order = isText(one) !== isText(other) ? isText(one) - isText(other)
    : isText(one) ? one.localeCompare(other, 'en', {numeric: true}) : one - other;
  return isDown ? -order : order;
}

/// A table that is sorted by the column whose title is clicked; again: the other way around.
function sortableTable(columns, rows) {
  const box = table(columns, rows);
  box.classList.add('sortable');
  const body = box.querySelector('tbody'), lines = [...body.children];
  box.querySelectorAll('th').forEach((head, i) => {
    const button = make('button', {type: 'button', title: 'Sort by it'}, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const isDown = head.ariaSort === 'ascending';
      for (const other of box.querySelectorAll('th')) other.ariaSort = null;
      head.ariaSort = isDown ? 'descending' : 'ascending';
      const order = rows.map((_, row) => row).sort((one, other) => compareKeys(sortKey(rows[one][i]), sortKey(rows[other][i]), isDown));
      body.replaceChildren(...order.map(row => lines[row]));
    });
  });
  return box;
}

/// A table in a box that scrolls. `rows`: lists of texts or nodes; null: no value.
function table(columns, rows, rowClasses = []) {
  const isRight = columns.map((_, i) => i > 0 && rows.some(row => isNumeric(textOf(row[i]))) && rows.every(row => !textOf(row[i]) || isNumeric(textOf(row[i]))));
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

const swatchOf = run => make('span', {className: 'swatch', style: `background:${colorOf(run)}`});
const runName = run => make('span', {title: report.runs[run].name}, swatchOf(run), report.runs[run].name);

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
      make('tr', {}, make('td', {}, runsWithCurves.size > 1 ? runName(curve.run) : lineSample(curve)), make('td', {}, report.metrics[curve.metric].name),
        ...texts.map(text => make('td', {}, text))))));
    tip.hidden = rows.length === 0;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${event.clientX + 16 + width > innerWidth ? Math.max(0, event.clientX - 16 - width) : event.clientX + 16}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - height - 8))}px`;
  },
};

/// Of a metric's name: whose it is, and of what: "train_loss_step" and "val/loss" are of "loss".
function partsOf(name) {
  const [, word, rest] = /^(train|training|val|valid|validation|test)[_/](.+)$/.exec(name) || [null, '', name];
  const [, what, fork] = /^(.+)_(step|epoch)$/.exec(rest) || [null, rest, ''];
  return {stage: word.startsWith('val') ? 'val' : word === 'test' ? 'test' : 'train', what, fork};
}

/// A number that is the result of a test, and not a curve.
const isTested = metric => partsOf(report.metrics[metric].name).stage === 'test' || curvesOfMetric[metric].every(({r}) => report.runs[r].kind !== 'fit');
const isCurve = metric => !isTested(metric) || curvesOfMetric[metric].some(({x, rx}) => (x || rx).length > 1);
const runsWithCurves = new Set(curvesOfMetric.flatMap((curves, metric) => isCurve(metric) ? curves.map(({r}) => r) : []));

/// How the line of a metric looks in the chart of `metrics`: by colour a run is known, or, where there is but one, a metric.
function lineOf(metric, run, metrics) {
  const {stage, fork} = partsOf(report.metrics[metric].name);
  const color = runsWithCurves.size > 1 ? colorOf(run) : colorOf(metrics.indexOf(metric));
  return {dash: stage === 'val' ? [6, 3] : stage === 'test' ? [2, 3] : [], width: fork === 'step' && metrics.length > 1 ? 1 : 1.8, color};
}

function lineSample({color, dash, width}) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 22 8');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  for (const [name, value] of Object.entries({x1: 0, x2: 22, y1: 4, y2: 4, 'stroke-dasharray': dash.join(' '), 'stroke-width': width + 0.6}))
    line.setAttribute(name, value);
  line.style.stroke = color;
  svg.append(line);
  return make('span', {className: 'sample'}, svg);
}

/// What a chart draws of its metrics, as the reader has chosen.
const shownCurves = metrics => metrics.flatMap(metric => shownCurvesOf(metric, metrics));
function shownCurvesOf(metric, metrics) {
  return curvesOfMetric[metric].filter(curve => !state.hidden.includes(report.runs[curve.r].path)).map(curve => {
    const placed = steps => state.x === 'epoch' ? steps.map(step => epochAt(curve.r, step)) : steps;
    const isOfRanks = curve.rx !== undefined;
    const x = placed(curve.x || curve.rx);
    const line = lineOf(metric, curve.r, metrics);
    const shown = {run: curve.r, metric, ...line, color: plainColor(line.color), x, y: smoothed(curve.y || curve.ry, state.smoothing)};
    if (isOfRanks) return {...shown, bandX: placed(curve.rx), low: curve.rl, high: curve.rh, bandName: 'ranks', bandAlpha: 0.2};
    // What a smoothed line leaves out is not a band of it.
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

/// `metrics`: what is drawn together, `name` what it is of.
function chartCard(metrics, name) {
  const canvas = make('canvas');
  charts.set(canvas, new Chart(canvas, () => shownCurves(metrics), view));
  observer.observe(canvas);
  const widen = make('button', {type: 'button', title: 'Wide or narrow'}, '⤢');
  const names = metrics.map(metric => report.metrics[metric].name);
  const sample = metric => {
    const line = lineOf(metric, 0, metrics);
    return make('span', {}, lineSample(runsWithCurves.size > 1 ? {...line, color: 'var(--soft)'} : line), report.metrics[metric].name);
  };
  const series = names.length > 1 ? make('div', {className: 'series'}, ...metrics.map(sample)) : null;
  const card = make('div', {className: 'card'}, make('h3', {}, make('span', {title: names.join(', ')}, name), widen), series, canvas);
  card.dataset.name = [name, ...names].join(' ').toLowerCase();
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
  const groups = new Map();
  report.metrics.forEach((metric, i) => {
    if (!isCurve(i)) return;
    const {what} = partsOf(metric.name), key = metric.section === 'Metrics' ? what : metric.name;
    if (!groups.has(metric.section + ' ' + key)) groups.set(metric.section + ' ' + key, {section: metric.section, what: key, metrics: []});
    groups.get(metric.section + ' ' + key).metrics.push(i);
  });
  const named = [...groups.values()].map(group => ({...group, name: group.metrics.length > 1 ? group.what : report.metrics[group.metrics[0]].name}));
  for (const section of ['Metrics', 'Learning rate', 'Throughput', 'Memory']) {
    const cards = named.filter(group => group.section === section).sort(order).map(({metrics, name}) => chartCard(metrics, name));
    if (cards.length) addSection(section, section === 'Metrics' ? hint : '', make('div', {className: 'charts'}, ...cards));
  }
}

// ---- Tables ----

function bestCheckpoint(run) {
  const best = run.checkpoints.find(checkpoint => checkpoint.monitor);
  return best ? `${best.monitor} ${shortNumber(best.score)}` : null;
}

const kMostColumns = 8;
/// The folders of two runs always differ.
const isPlace = key => key === 'trainer.default_root_dir';
const numberCell = value => value === undefined || value === null ? null : keyed(value, make('span', {title: String(value)}, shortNumber(value)));

/// The options that differ, those of the model first, and of callbacks last.
function settingsInTable() {
  const order = ({key}) => /^model\b/.test(key) ? 0 : /^(optimizer|lr_scheduler)\b/.test(key) ? 1 : /^data\b/.test(key) ? 2 : /callbacks|logger/.test(key) ? 4 : 3;
  return report.settings.filter(({key}) => !isPlace(key)).sort((one, other) => order(one) - order(other)).slice(0, kMostColumns);
}

/// The metrics of the table of runs: of validation first, and those of layers and the like not at all.
function namesInTable() {
  const order = ({name}) => ['val', 'train', 'test'].indexOf(partsOf(name).stage);
  const names = report.metrics.filter(({name, section}, i) => section === 'Metrics' && !/\/.*\//.test(name) && partsOf(name).fork !== 'step' && isCurve(i));
  const mode = name => report.runs.map(run => run.values[name]?.mode).find(mode => mode);
  return names.sort((one, other) => order(one) - order(other)).slice(0, kMostColumns).map(({name}) => ({name, mode: mode(name)}));
}

/// What a run is now. One of another machine cannot be asked: it may have ended long ago.
function statusOf(run) {
  const kHour = 3600e3;
  const isSilent = run.status === 'running' && run.last_sign && Date.now() - new Date(run.last_sign.replace(' ', 'T')) > kHour;
  if (!run.last_sign || run.status === 'running' && !isSilent) return make('span', {className: run.status}, (run.kind === 'fit' ? '' : run.kind + ' ') + run.status);
  return make('span', {className: 'lost'}, `${isSilent ? 'running, or its process is gone' : run.status}; last sign of life ${run.last_sign}`);
}

function addRuns() {
  const settings = settingsInTable();
  const metrics = namesInTable();
  const columns = ['run', 'status', 'took', ...settings.map(({key}) => key.replaceAll('.init_args', '')), ...metrics.flatMap(({name, mode}) => mode ? [name, `best ${name}`] : [name]),
    'ranks', 'started', 'best checkpoint', 'ended by', 'tags'];
  const rows = report.runs.map((run, i) => [keyed(run.name, runName(i)), statusOf(run),
    run.seconds ? keyed(run.seconds, make('span', {}, duration(run.seconds))) : null, ...settings.map(({values}) => values[i]),
    ...metrics.flatMap(({name, mode}) => {
      const value = run.values[name];
      return mode ? [numberCell(value?.last), numberCell(value?.best)] : [numberCell(value?.last)];
    }), String(run.ranks), run.started || null, bestCheckpoint(run), run.stop_reason || null, run.tags.join(', ') || null]);
  // What several runs say alike is said once.
  const said = new Map();
  report.runs.forEach((run, i) => {
    const add = (className, text) => {
      if (!said.has(className + text)) said.set(className + text, {className, text, runs: []});
      said.get(className + text).runs.push(i);
    };
    if (run.failure) add('bad', run.failure);
    for (const warning of run.warnings.slice(0, 20)) add('', warning);
    if (run.warnings.length > 20) add('', `${run.warnings.length - 20} more warnings`);
    for (const problem of run.problems) add('bad', problem);
    for (const departure of run.departures) add('rank', departure);
  });
  const messages = [...said.values()].map(({className, text, runs: [first, ...others]}) => make('div', {className: 'message ' + className, title: others.map(i => report.runs[i].name).join(', ')},
    runName(first), others.length ? ` and ${others.length} more: ${text}` : ': ' + text));
  const note = report.runs.length > 1 ? 'a click on a column sorts by it' : '';
  addSection('Runs', note, sortableTable(columns, rows), ...messages);
}

/// The results of separate tests and validations.
function addTests() {
  const metrics = report.metrics.map((_, i) => i).filter(i => isTested(i) && !isCurve(i));
  const tested = report.runs.map((_, i) => i).filter(run => metrics.some(metric => report.metrics[metric].name in report.runs[run].values));
  if (!tested.length) return;
  const rows = tested.map(run => [keyed(report.runs[run].name, runName(run)), report.runs[run].started || null,
    ...metrics.map(metric => numberCell(report.runs[run].values[report.metrics[metric].name]?.last))]);
  addSection('Tests', 'values of a test are not curves', sortableTable(['run', 'started', ...metrics.map(metric => report.metrics[metric].name)], rows));
}

// ---- Sweeps ----

function svgElement(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/// Where values lie on an axis, from 0 to 1: numbers by size, of several powers of ten by their logarithms; other values side by
/// side. Also {place, text} of what is written at the axis.
function scaleOf(values) {
  const numbers = values.map(Number);
  if (!values.every((value, i) => value !== null && value !== '' && Number.isFinite(numbers[i]))) {
    const names = [...new Set(values)];
    const place = value => (names.indexOf(value) + 0.5) / names.length;
    return {place, ticks: names.slice(0, 12).map(name => ({place: place(name), text: String(name ?? '–').slice(0, 14)}))};
  }
  const low = Math.min(...numbers), high = Math.max(...numbers);
  const isLog = low > 0 && high / low >= 20, along = value => isLog ? Math.log(value) : Number(value);
  const place = value => high > low ? 0.04 + 0.92 * (along(value) - along(low)) / (along(high) - along(low)) : 0.5;
  const all = (isLog ? logTicksOf : ticksOf)(low, high, isLog ? 4 : 6), powers = all.filter(tick => isLog && Number.isInteger(Math.log10(tick)));
  return {place, ticks: (powers.length > 2 ? powers : all).map(tick => ({place: place(tick), text: shortNumber(tick)}))};
}

/// A dot for each trial: one of its values, and its score.
function scatter(sweep, key) {
  const trials = sweep.trials.filter(trial => trial.score !== null && trial.values[key] !== null);
  const across = scaleOf(trials.map(trial => trial.values[key])), up = scaleOf(trials.map(trial => trial.score));
  const box = {left: 46, right: 330, top: 8, bottom: 176};
  const x = place => box.left + place * (box.right - box.left), y = place => box.bottom - place * (box.bottom - box.top);
  const svg = svgElement('svg', {viewBox: '0 0 340 200', class: 'scatter'});
  for (const {place, text} of up.ticks) {
    svg.append(svgElement('line', {x1: box.left, x2: box.right, y1: y(place), y2: y(place)}),
      svgElement('text', {x: box.left - 5, y: y(place) + 4, 'text-anchor': 'end'}, text));
  }
  for (const {place, text} of across.ticks) {
    svg.append(svgElement('line', {x1: x(place), x2: x(place), y1: box.top, y2: box.bottom}),
      svgElement('text', {x: x(place), y: box.bottom + 16, 'text-anchor': 'middle'}, text));
  }
  // The best one is drawn last, above the others.
  [...trials].reverse().forEach(trial => {
    const isBest = trial === sweep.trials[0];
    const title = svgElement('title', {}, `${trial.name}: ${sweep.keys[key]} ${trial.values[key]}, ${sweep.monitor} ${shortNumber(trial.score)}`);
    svg.append(svgElement('circle', {cx: x(across.place(trial.values[key])), cy: y(up.place(trial.score)), r: isBest ? 6 : 4.5, class: isBest ? 'best' : ''}, title));
  });
  return make('div', {className: 'card'}, make('h3', {}, make('span', {}, `${sweep.monitor} by ${sweep.keys[key]}`)), svg);
}

function addSweeps() {
  report.sweeps.forEach((sweep, i) => {
    const columns = ['rank', 'trial', ...sweep.keys, sweep.monitor || 'score', 'status', 'took'];
    const rows = sweep.trials.map((trial, place) => [trial.score === null ? null : String(place + 1),
      trial.run === null ? trial.name : keyed(trial.name, make('span', {}, swatchOf(trial.run), trial.name)), ...trial.values, numberCell(trial.score), trial.status,
      trial.seconds ? keyed(trial.seconds, make('span', {}, duration(trial.seconds))) : null]);
    const compared = sweep.trials.filter(trial => trial.score !== null).length;
    const differs = key => new Set(sweep.trials.map(trial => trial.values[key])).size > 1;
    const cards = compared > 1 ? sweep.keys.map((_, key) => key).filter(differs).slice(0, 12).map(key => scatter(sweep, key)) : [];
    const note = `${sweep.folder}: the best by ${sweep.monitor || 'no metric'} (${sweep.mode}) first; in charts it has a ring`;
    addSection(report.sweeps.length > 1 ? `Sweep ${i + 1}` : 'Sweep', note, sortableTable(columns, rows), make('div', {className: 'media'}, ...cards));
  });
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
  image.tabIndex = 0;
  image.title = 'Enlarge';
  image.setAttribute('role', 'button');
  const open = () => enlarge(image);
  image.addEventListener('click', open);
  image.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); open(); } });
  return image;
}

/// Shows a picture as large as the window allows, until a click or Esc.
function enlarge(image) {
  const dialog = document.getElementById('enlarged');
  const caption = image.closest('.card')?.querySelector('h3')?.textContent || '';
  const large = make('img', {src: image.src, alt: caption, className: image.className});
  dialog.replaceChildren(make('h3', {}, caption), large);
  dialog.showModal();
}

/// Bars whose areas are the counts. `rows`: the upper end of each bucket, and its count; values that are not numbers are listed below.
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
  // A single bucket is of one value.
  const ticks = make('div', {className: 'ends note'}, make('span', {}, ends.length === 1 ? '' : shortNumber(low ?? null)), make('span', {}, others),
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
    if (!runsWithCurves.has(i)) return;
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
  // On paper all of the page is seen.
  addEventListener('beforeprint', () => { for (const chart of charts.values()) chart.draw(); });
  const dialog = document.getElementById('enlarged');
  dialog.addEventListener('click', () => dialog.close());
}

addRuns();
addTests();
addSweeps();
addCharts();
addSettings('What differs', 'between the configurations of the runs', report.settings.filter(({key}) => !isPlace(key)));
addSettings('Hyper-parameters', '', report.hyperparams);
addCheckpoints();
addProfiles();
addMedia();
addLegend();
listen();
applyState();
// A page that is in use waits.
if (report.reloads) setInterval(() => { if (tip.hidden && !document.getElementById('enlarged').open) location.reload(); }, 5000);
