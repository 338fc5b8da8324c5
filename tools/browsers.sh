#!/usr/bin/env bash
# Install what the browser tests drive: Chromium, Firefox, WebKitGTK, a screen for it, and a Vulkan
# driver without a GPU. Needs Debian and root, unless everything is there already; then it's a no-op.
set -euo pipefail

readonly PACKAGES=(chromium firefox-esr webkit2gtk-driver xvfb fonts-liberation)
readonly DRIVER=mesa-vulkan-drivers
# Mesa's software driver, lavapipe, gives Firefox WebGPU with 16-bit floats. Mesa 22 (Debian 12)
# lacks what wgpu asks for; 25 has been seen to work. Debian 13 has it, Debian 12 in its backports.
readonly DRIVER_MAJOR=25
readonly ATTEMPTS=4

die() {
  printf 'browsers.sh: %s\n' "$*" >&2
  exit 1
}

# The packages of the arguments that aren't installed, one a line.
missing() {
  comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query --show --showformat '${Status} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^install ok installed //p' | sort -u)
}

major() { # "1:25.0.7-2" gives 25, nothing gives 0
  sed -E 's/^[0-9]+://; s/[^0-9].*//; s/^$/0/' <<<"$1"
}

driver_is_good() {
  local version
  version=$(dpkg-query --show --showformat '${Version}' "$DRIVER" 2>/dev/null) || return 1
  [[ -z $(missing "$DRIVER") && $(major "$version") -ge $DRIVER_MAJOR ]]
}

candidate() { apt-cache madison "$DRIVER" | awk -F' *\\| *' -v suite="$1" \
  'suite == "" || $3 ~ suite { print $2; exit }'; }

retry() {
  local attempt
  for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
    "$@" && return
    printf 'browsers.sh: attempt %d of %d failed: %s\n' "$attempt" "$ATTEMPTS" "$*" >&2
    sleep $((attempt * 3))
  done
  die "gave up on: $*"
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@"
}

# Add the distribution's backports from the mirror that the machine's other sources use.
add_backports() {
  local codename=$1 uri
  local -r keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  uri=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$codename" '$1 == suite { print $2; exit }')
  [[ -n $uri ]] || die "no package source of this machine offers the suite '$codename'"
  {
    printf '# Added for a newer Mesa. Nothing else is taken from here unless it is asked for.\n'
    printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$uri" "$codename"
    [[ ! -f $keyring ]] || printf 'Signed-By: %s\n' "$keyring"
  } >/etc/apt/sources.list.d/onnxsite-backports.sources
}

install_driver() {
  local codename suite=
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  if [[ $(major "$(candidate '')") -lt $DRIVER_MAJOR ]]; then
    suite=$codename-backports
    if [[ -z $(candidate "$suite") ]]; then
      add_backports "$codename"
      retry apt update
    fi
    [[ $(major "$(candidate "$suite")") -ge $DRIVER_MAJOR ]] ||
      die "$codename and its backports have no Mesa $DRIVER_MAJOR; Firefox's WebGPU needs it"
  fi
  retry apt install --yes --no-install-recommends ${suite:+--target-release "$suite"} "$DRIVER"
}

main() {
  local -a wanted=()
  local -r by_hand="Install by hand: ${PACKAGES[*]}, and Mesa's Vulkan drivers $DRIVER_MAJOR or newer."
  command -v dpkg-query apt-get >/dev/null || die "this isn't Debian. $by_hand"
  mapfile -t wanted < <(missing "${PACKAGES[@]}")
  if [[ ${#wanted[@]} -eq 0 ]] && driver_is_good; then
    return
  fi
  [[ $EUID -eq 0 ]] || die "needs root to install ${wanted[*]:-$DRIVER}: run it with sudo. $by_hand"
  retry apt update
  for package in "${wanted[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 ||
      die "this distribution has no package '$package' (Ubuntu's browsers are snaps). $by_hand"
  done
  if [[ ${#wanted[@]} -gt 0 ]]; then
    printf 'browsers.sh: installing %s\n' "${wanted[*]}"
    retry apt install --yes --no-install-recommends "${wanted[@]}"
  fi
  if ! driver_is_good; then
    printf 'browsers.sh: installing %s\n' "$DRIVER"
    install_driver
  fi
  driver_is_good || die "$DRIVER is still older than $DRIVER_MAJOR"
}

main "$@"
