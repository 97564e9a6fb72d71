// Numbers with a unit, as forms have them: a text and a unit, and the number that they mean.

export const SPANS = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]];
export const SIZES = [["B", 1], ["KiB", 1024], ["MiB", 1024 ** 2], ["GiB", 1024 ** 3]];
export const COUNTS = [["", 1]];
export const RATES = [["/s", 1]];

// {text, unit}: in the largest unit in which the number is whole.
export function written(value, units) {
  const fitting = value === 0 ? units[0] : [...units].reverse().find(([, size]) => value % size === 0) || units[0];
  return { text: String(value / fitting[1]), unit: fitting[0] };
}

// The number that is meant; null if the text is none.
export function meant({ text, unit }, units) {
  const trimmed = text.trim();
  if (!/^\d+(\.\d+)?$/.test(trimmed)) return null;
  const value = Number(trimmed) * units.find(([name]) => name === unit)[1];
  return units === SPANS || units === RATES ? Math.round(value * 1000) / 1000 : Number.isInteger(value) ? value : null;
}
