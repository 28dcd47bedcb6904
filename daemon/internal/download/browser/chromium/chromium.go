// Package chromium starts the browser in its jail, and ends it with all processes that it has started.
// It provides two pipes by which the browser is controlled, but does not know the protocol on them.
package chromium

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/jail"
	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
)

// Command is the first argument of a program that is to become a browser. Three more follow: the
// bytes of memory, the folder of its profile, and the path of the browser.
const Command = reexec.Browser

// exitJail is the exit code if there is no jail; the reason is in the standard error output.
const exitJail = 90

// fileSize is the largest file that a browser can write, in bytes.
const fileSize = 256 << 20

// ErrNotFound is wrapped if there is no browser.
var ErrNotFound = errors.New("no headless Chromium on this machine: install the package chromium-headless-shell (Debian), or name one in browser.path")

// Find returns the path of the browser: the given one, or else the first of the usual names that
// exists.
func Find(path string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("browser.path: %w", err)
		}
		return filepath.Abs(found)
	}
	// The program itself rather than the shell script that Debian puts in the PATH.
	for _, name := range []string{"/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell", "chrome-headless-shell", "headless_shell"} {
		if found, err := exec.LookPath(name); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", ErrNotFound
}

// Jailed says why this machine can have no jail, or returns nil if it seems that it can.
func Jailed() error { return jail.Available() }

// Asked reports whether the arguments of a program, without its name, ask it to become a browser.
func Asked(args []string) bool { return len(args) == 4 && args[0] == Command }

// Main becomes the browser. It returns an exit code if that fails.
func Main(args []string) int {
	memory, err := strconv.ParseInt(args[1], 10, 64)
	if err == nil {
		err = become(memory, args[2], args[3])
	}
	fmt.Fprintln(os.Stderr, err)
	return exitJail
}

func become(memory int64, profile, browser string) error {
	at, err := filepath.EvalSymlinks(browser)
	if err != nil {
		return err
	}
	args := append([]string{at}, flags(profile)...)
	if !jail.Executable() {
		args = append(args, "--js-flags=--jitless")
	}
	env := []string{"HOME=" + profile, "TMPDIR=" + profile, "XDG_CONFIG_HOME=" + profile, "XDG_CACHE_HOME=" + profile, "LANG=C.UTF-8", "PATH=/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:"}
	return jail.Exec(jail.Options{
		ReadOnly: []string{"/usr", "/lib", "/lib64", "/bin", filepath.Dir(at)},
		ReadOne: []string{
			"/etc/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/var/cache/fontconfig",
			"/proc", "/sys/devices/system/cpu", os.DevNull, "/dev/urandom", "/dev/random", "/dev/zero",
		},
		Private: profile, Memory: memory, FileSize: fileSize,
	}, at, args, env)
}

// flags are the browser's flags. Its own sandbox is off, because it needs rights (user
// namespaces) that the service lacks; package jail takes its place.
func flags(profile string) []string {
	return []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + profile,
		"--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-software-rasterizer", "--in-process-gpu",
		"--disable-dev-shm-usage", "--renderer-process-limit=1", "--disable-site-isolation-trials",
		"--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,BackForwardCache,Prerender2,SpareRendererForSitePerProcess,AcceptCHFrame,HttpsUpgrades,DialMediaRouteProvider,ServiceWorkerPaymentApps,NetworkTimeServiceQuerying",
		"--no-first-run", "--no-default-browser-check", "--no-pings", "--no-service-autorun", "--mute-audio", "--hide-scrollbars",
		"--disable-extensions", "--disable-component-extensions-with-background-pages", "--disable-default-apps", "--disable-sync",
		"--disable-background-networking", "--disable-component-update", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
		"--disable-breakpad", "--disable-crash-reporter", "--disable-hang-monitor", "--disable-prompt-on-repost", "--disable-popup-blocking=false",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--block-new-web-contents", "--disable-quic", "--dns-prefetch-disable", "--disable-file-system", "--disable-remote-fonts",
		"--disable-databases", "--disable-speech-api", "--disable-notifications", "--disable-logging", "--disk-cache-size=1",
		"--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--password-store=basic", "--metrics-recording-only",
		"about:blank",
	}
}
