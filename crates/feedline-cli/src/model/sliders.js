// Moves the figures and the curve with the sliders.
(() => {
  const form = document.getElementById("sliders");
  const sliders = [...form.querySelectorAll("input")];
  const setting = () =>
    Object.fromEntries(sliders.map((it) => [it.name, Number(it.value) * (it.dataset.unit === "ms" ? 1e-3 : 1)]));

  const digits = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  const time = (seconds) => {
    if (seconds >= 1 || seconds === 0) return digits(seconds) + " s";
    return seconds >= 1e-3 ? digits(seconds * 1e3) + " ms" : digits(seconds * 1e6) + " us";
  };
  const share = (value) => (value * 100).toFixed(1) + " %";
  const texts = {
    throughput: digits,
    wait: time,
    waitingShare: share,
    ready: digits,
    utilisation: share,
    knee: (value) => (value === null ? "none" : digits(value)),
    oneMore: share,
  };

  const chart = document.getElementById("curve");
  const [left, right, top, bottom] = [64, 628, 14, 232];
  const draw = (now, figures) => {
    const most = Math.max(8, Math.ceil(1.5 * Math.max(now.workers, Math.min(figures.knee ?? 0, 1000))));
    const points = [];
    for (let workers = 1; workers <= most; workers += Math.max(1, Math.floor(most / 128))) {
      points.push([workers, feedlineModel.loading({ ...now, workers }).throughput]);
    }
    const high = Math.max(figures.throughput, ...points.map(([, y]) => y)) * 1.08;
    const x = (value) => left + ((right - left) * (value - 1)) / Math.max(most - 1, 1);
    const y = (value) => bottom - ((bottom - top) * value) / high;
    const at = ([px, py]) => x(px).toFixed(1) + "," + y(py).toFixed(1);
    chart.querySelector("polyline").setAttribute("points", points.map(at).join(" "));
    const dot = chart.querySelector("circle");
    dot.setAttribute("cx", x(now.workers).toFixed(1));
    dot.setAttribute("cy", y(figures.throughput).toFixed(1));
    const labels = chart.querySelectorAll("text.n");
    labels[0].textContent = digits(high / 1.08);
    labels[1].textContent = "1";
    labels[2].textContent = String(most);
  };

  const show = () => {
    const now = setting();
    const figures = feedlineModel.loading(now);
    for (const slider of sliders) {
      const text = slider.value + (slider.dataset.unit === "ms" ? " ms" : "");
      slider.parentElement.querySelector("output").textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
    for (const [name, text] of Object.entries(texts)) {
      const place = document.getElementById("figure-" + name);
      place.textContent = text(figures[name]);
      place.dataset.value = figures[name] === null ? "" : String(figures[name]);
    }
    draw(now, figures);
  };
  form.addEventListener("input", show);
  show();
})();
