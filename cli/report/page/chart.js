'use strict';
// A chart of what was measured of one thing in training and validation: a line for each run and metric, and behind it the band of
// its ranks, or of the steps that a point stands for.

const kMargin = {left: 52, right: 10, top: 8, bottom: 20};

/// Rounded numbers that divide an axis into some parts.
function ticksOf(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => span / n <= count);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; ++n) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

/// Powers of ten, some of them on a long axis; on a short one also their doubles and fives.
function logTicksOf(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / count)), factors = last - first <= 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let n = first; n <= last; n += every) ticks.push(...factors.map(factor => factor * 10 ** n));
  const shown = ticks.filter(tick => tick >= low && tick <= high);
  return shown.length > 1 ? shown : ticksOf(low, high, count).filter(n => n > 0);
}

function shortNumber(n) {
  if (n === null || Number.isNaN(n)) return 'NaN';
  const size = Math.abs(n);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return n.toExponential(3).replace(/\.?0+e/, 'e').replace('e+', 'e');
  for (const [unit, letter] of [[1e6, 'M'], [1e4, 'k']]) {
    if (size >= unit) return Number((n / (letter === 'k' ? 1e3 : unit)).toPrecision(5)) + letter;
  }
  return String(Number(n.toPrecision(5)));
}

/// The mean over the points so far, in which a point counts by this factor less at each next one, as in TensorBoard.
function smoothed(values, factor) {
  if (factor === 0) return values;
  let mean = 0, weight = 0;
  return values.map(value => {
    if (value === null) return null;
    mean = mean * factor + value * (1 - factor);
    weight = weight * factor + 1 - factor;
    return mean / weight;
  });
}

/// The index of the nearest of sorted numbers.
function nearest(numbers, wanted) {
  let low = 0, high = numbers.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < wanted) low = middle; else high = middle;
  }
  return Math.abs(numbers[low] - wanted) <= Math.abs(numbers[high] - wanted) ? low : high;
}

class Chart {
  /// `curvesOf()` gives what to draw now: {run, metric, color, dash, width, x, y}, and of one with a band {bandX, low, high, bandName, bandAlpha}.
  /// `view`: what holds for all charts: {isLog, xName, tip, showTip}.
  constructor(canvas, curvesOf, view) {
    this.canvas = canvas;
    this.curvesOf = curvesOf;
    this.view = view;
    this.zoom = null;   // the part of the x axis that is shown
    this.drag = null;   // where the mouse went down
    canvas.addEventListener('pointermove', event => this.onMove(event));
    canvas.addEventListener('pointerleave', () => { this.drag = null; this.view.tip.hidden = true; this.draw(); });
    canvas.addEventListener('pointerdown', event => {
      // A finger scrolls the page.
      if (event.pointerType === 'mouse') { this.drag = event.offsetX; event.preventDefault(); } else this.onMove(event);
    });
    canvas.addEventListener('pointerup', event => this.onUp(event));
    canvas.addEventListener('dblclick', () => { this.zoom = null; this.draw(); });
  }

  draw() {
    const style = getComputedStyle(document.documentElement);
    this.colorOf = name => style.getPropertyValue('--' + name);
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    const context = this.context = this.canvas.getContext('2d');
    context.scale(ratio, ratio);
    this.curves = this.curvesOf();
    this.setRanges();
    this.drawAxes();
    context.save();
    context.beginPath();
    context.rect(kMargin.left - 3, kMargin.top - 3, this.width - kMargin.left - kMargin.right + 6, this.height - kMargin.top - kMargin.bottom + 6);
    context.clip();
    for (const curve of this.curves) this.drawBand(curve);
    for (const curve of this.curves) this.drawLine(curve);
    context.restore();
  }

  /// Values that the axis can show.
  isShown(value) { return value !== null && (!this.view.isLog || value > 0); }

  setRanges() {
    const x = [Infinity, -Infinity], y = [Infinity, -Infinity];
    const widen = (range, value) => { range[0] = Math.min(range[0], value); range[1] = Math.max(range[1], value); };
    const widenBy = (steps, values) => steps.forEach((step, i) => {
      if (this.zoom && (step < this.zoom[0] || step > this.zoom[1])) return;
      widen(x, step);
      if (this.isShown(values[i])) widen(y, values[i]);
    });
    for (const curve of this.curves) {
      widenBy(curve.x, curve.y);
      if (curve.low) { widenBy(curve.bandX, curve.low); widenBy(curve.bandX, curve.high); }
    }
    this.isEmpty = !(x[0] <= x[1]);
    this.x = this.zoom || (x[0] < x[1] ? x : [x[0] - 0.5, x[0] + 0.5]);
    if (!(y[0] <= y[1])) y.splice(0, 2, this.view.isLog ? 1 : 0, this.view.isLog ? 10 : 1);
    if (this.view.isLog) {
      const margin = Math.max((y[1] / y[0]) ** 0.04, 1.02);
      this.y = [y[0] / margin, y[1] * margin];
    } else {
      const margin = (y[1] - y[0]) * 0.05 || Math.abs(y[0]) * 0.05 || 0.5;
      this.y = [y[0] - margin, y[1] + margin];
    }
  }

  placeX(x) { return kMargin.left + (x - this.x[0]) / (this.x[1] - this.x[0]) * (this.width - kMargin.left - kMargin.right); }
  xAt(place) { return this.x[0] + (place - kMargin.left) / (this.width - kMargin.left - kMargin.right) * (this.x[1] - this.x[0]); }
  placeY(y) {
    const part = this.view.isLog ? Math.log(y / this.y[0]) / Math.log(this.y[1] / this.y[0]) : (y - this.y[0]) / (this.y[1] - this.y[0]);
    return this.height - kMargin.bottom - part * (this.height - kMargin.top - kMargin.bottom);
  }

  drawAxes() {
    const context = this.context;
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.lineWidth = 1;
    context.fillStyle = this.colorOf('soft');
    context.strokeStyle = this.colorOf('grid');
    if (this.isEmpty) {
      context.textAlign = 'center';
      context.fillText('all of its runs are hidden', this.width / 2, this.height / 2);
      return;
    }
    const line = (x0, y0, x1, y1) => { context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1); context.stroke(); };
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const tick of (this.view.isLog ? logTicksOf : ticksOf)(this.y[0], this.y[1], this.height > 300 ? 10 : 5)) {
      const y = Math.round(this.placeY(tick)) + 0.5;
      line(kMargin.left, y, this.width - kMargin.right, y);
      context.fillText(shortNumber(tick), kMargin.left - 6, y, kMargin.left - 8);
    }
    context.textBaseline = 'top';
    for (const tick of ticksOf(this.x[0], this.x[1], this.width / 70)) {
      const x = Math.round(this.placeX(tick)) + 0.5, half = context.measureText(shortNumber(tick)).width / 2;
      line(x, kMargin.top, x, this.height - kMargin.bottom);
      context.textAlign = x + half > this.width ? 'right' : 'center';
      context.fillText(shortNumber(tick), Math.min(x, this.width - 1), this.height - kMargin.bottom + 5);
    }
  }

  drawBand({color, bandX, low, high, bandAlpha}) {
    if (!low) return;
    const context = this.context;
    context.globalAlpha = bandAlpha;
    context.fillStyle = color;
    for (let begin = 0; begin < bandX.length; ++begin) {
      let end = begin;
      while (end < bandX.length && this.isShown(low[end]) && this.isShown(high[end])) ++end;
      if (end === begin) continue;
      context.beginPath();
      for (let i = begin; i < end; ++i) context.lineTo(this.placeX(bandX[i]), this.placeY(high[i]) - 0.5);
      for (let i = end - 1; i >= begin; --i) context.lineTo(this.placeX(bandX[i]), this.placeY(low[i]) + 0.5);
      context.fill();
      begin = end;
    }
    context.globalAlpha = 1;
  }

  drawLine({color, dash, width, x, y}) {
    const context = this.context;
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.lineJoin = 'round';
    context.beginPath();
    let goesOn = false;
    y.forEach((value, i) => {
      const isShown = this.isShown(value);
      if (isShown) context[goesOn ? 'lineTo' : 'moveTo'](this.placeX(x[i]), this.placeY(value));
      goesOn = isShown;
    });
    context.stroke();
    context.setLineDash([]);
    const dots = x.length <= 25;
    y.forEach((value, i) => {
      if (value === null) {
        // Neither finite nor to be overlooked.
        context.fillStyle = this.colorOf('bad');
        context.fillRect(this.placeX(x[i]) - 1, this.height - kMargin.bottom - 5, 2, 7);
        context.fillStyle = color;
      } else if (this.isShown(value) && (dots || (y[i - 1] ?? null) === null && (y[i + 1] ?? null) === null)) {
        context.beginPath();
        context.arc(this.placeX(x[i]), this.placeY(value), 2.2, 0, 7);
        context.fill();
      }
    });
  }

  onMove(event) {
    if (this.isEmpty || !this.curves) return;
    this.draw();
    const context = this.context, x = this.xAt(event.offsetX);
    context.fillStyle = context.strokeStyle = this.colorOf('soft');
    if (this.drag !== null && Math.abs(event.offsetX - this.drag) > 3) {
      context.globalAlpha = 0.15;
      context.fillRect(this.drag, kMargin.top, event.offsetX - this.drag, this.height - kMargin.top - kMargin.bottom);
      context.globalAlpha = 1;
    }
    context.beginPath();
    context.moveTo(event.offsetX, kMargin.top);
    context.lineTo(event.offsetX, this.height - kMargin.bottom);
    context.stroke();
    const rows = [];
    for (const curve of this.curves) {
      const i = nearest(curve.x, x);
      if (curve.x[i] < this.x[0] || curve.x[i] > this.x[1]) continue;
      if (this.isShown(curve.y[i])) {
        context.fillStyle = curve.color;
        context.beginPath();
        context.arc(this.placeX(curve.x[i]), this.placeY(curve.y[i]), 3.5, 0, 7);
        context.fill();
      }
      const row = [curve, shortNumber(curve.y[i]), '', `${this.view.xName} ${shortNumber(curve.x[i])}`];
      if (curve.low) {
        const j = nearest(curve.bandX, curve.x[i]);
        if (curve.low[j] !== null) row[2] = `${curve.bandName} ${shortNumber(curve.low[j])} to ${shortNumber(curve.high[j])}`;
      }
      rows.push(row);
    }
    // As the lines lie above one another.
    rows.sort(([{y: one, x: oneX}], [{y: other, x: otherX}]) => (other[nearest(otherX, x)] ?? -Infinity) - (one[nearest(oneX, x)] ?? -Infinity));
    this.view.showTip(event, rows);
  }

  onUp(event) {
    const from = this.drag;
    this.drag = null;
    if (from === null || Math.abs(event.offsetX - from) <= 3) return;
    this.zoom = [this.xAt(Math.min(from, event.offsetX)), this.xAt(Math.max(from, event.offsetX))];
    this.draw();
  }
}
