/** Numbers as people read them. Pure. */

const UNITS = ["B", "kB", "MB", "GB"] as const;

/** Bytes with a decimal unit (1 MB = 1,000,000 bytes, as hosts and file managers count them). */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit] ?? ""}`;
}

/** A share of one as per cent: one decimal, and never a rounded 100 % or 0 % that isn't one. */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.1) {
    return "< 0.1 %";
  }
  if (value < 100 && value >= 99.95) {
    return "> 99.9 %";
  }
  return `${value.toFixed(1)} %`;
}

/** Milliseconds: tenths below ten, seconds from ten thousand. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds >= 9999.5) {
    return `${(milliseconds / 1000).toFixed(1)} s`;
  }
  return `${milliseconds.toFixed(milliseconds < 9.95 ? 1 : 0)} ms`;
}

/** A whole number with thousands separators. */
export function formatCount(count: number): string {
  return count.toLocaleString("en");
}

/** A tensor's value in at most five significant digits; whole numbers in full. */
export function formatNumber(value: number | bigint): string {
  if (typeof value === "bigint" || (Number.isInteger(value) && Math.abs(value) < 1e9)) {
    return value.toString();
  }
  if (!Number.isFinite(value)) {
    return String(value);
  }
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-4
    ? value.toExponential(3)
    : Number.parseFloat(value.toPrecision(5)).toString();
}
