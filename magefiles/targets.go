//go:build mage

// Targets of urifilter: go tool mage TARGET [-FLAG=VALUE ...]; go tool mage -h TARGET shows flags and examples.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/magefiles/chores"
)

// Build compiles the programs to dist/urifilter and dist/uridownloader.
func Build(ctx context.Context) error { return repo().Build(ctx) }

// BuildLinux compiles the static programs for servers to dist/urifilter-linux-ARCH and dist/uridownloader-linux-ARCH, for amd64 and arm64.
func BuildLinux(ctx context.Context) error { return repo().BuildLinux(ctx) }

// Release makes what a version is published as to dist/VERSION: programs, packages, images, notes and sums. HEAD must have the tag, and no changes.
//
//	git tag v0.9.0 && go tool mage release -version=v0.9.0
//	go tool mage release -version=v0.9.0 -key=../minisign.key
func Release(
	ctx context.Context,
	version *string, // the tag, as v0.9.0; HEAD must have it
	platforms *string, // comma-separated, in place of linux, darwin and windows on amd64 and arm64
	key *string, // a file with a minisign key without a password, which signs SHA256SUMS
) error {
	return repo().Release(ctx, valueOr(version, ""), valueOr(platforms, ""), valueOr(key, ""))
}

// Run builds and starts the filter on 127.0.0.1:8000 with its data in .run, and prints two calls to try.
func Run(ctx context.Context) error { return repo().Run(ctx, os.Getenv("URIFILTER_LISTEN")) }

// RunDownloader builds and starts the downloader on 127.0.0.1:8001 with its data in .run, and prints what to try.
func RunDownloader(ctx context.Context) error {
	return repo().RunDownloader(ctx, os.Getenv("URIDOWNLOADER_LISTEN"))
}

// Test runs all tests except the system tests; -run=PATTERN runs only Go tests with matching names, -short leaves out long ones.
func Test(ctx context.Context, run *string, short *bool) error {
	return repo().Test(ctx, chores.TestOptions{Run: valueOr(run, ""), Short: valueOr(short, false)})
}

// TestSystem runs the tests that boot hosts, or kill and restart processes for minutes; -run=PATTERN runs only those with matching names.
func TestSystem(ctx context.Context, run *string) error {
	return repo().TestSystem(ctx, valueOr(run, ""))
}

// Check runs the linters, the race detector on all tests but the system tests, the checks for other platforms and the search for known vulnerabilities.
func Check(ctx context.Context) error { return repo().Check(ctx) }

// Bench measures speed and memory, prints tables and keeps every run in .run/results; -args=-write puts tables and charts into docs.
//
//	go tool mage bench -args=-help
//	go tool mage bench -args="-only=http,redis -runs=3 -write"
func Bench(ctx context.Context, args *string) error {
	return repo().Bench(ctx, strings.Fields(valueOr(args, "")))
}

// BenchCompare shows with benchstat how two results of bench differ; also bench:compare.
//
//	go tool mage bench:compare docs/measured .run/results/2026-11-23-101500
func BenchCompare(ctx context.Context, before, after string) error {
	return repo().Compare(ctx, before, after)
}

// Rooms draws docs/rooms.svg, the picture of which room of the code imports which.
func Rooms(ctx context.Context) error { return repo().Rooms(ctx) }

// Chaos kills, halts and disconnects daemons and Redis under load, and checks that exactly one of equal items was new.
//
//	go tool mage chaos -duration=2h -seed=7
//	go tool mage chaos -store=redis,sentinel -faults=kill,redis-cut
//	go tool mage chaos -faults=-clock
//	go tool mage chaos -beside=v0.9.0
func Chaos(
	ctx context.Context,
	duration *time.Duration, // how long; 10m if not given
	seed *string, // of the faults and the callers' choices; chosen and printed if not given
	store *string, // embedded, redis, sentinel, cluster, mysql, comma-separated, in turns; all if not given
	faults *string, // only these, comma-separated, or all but -these; daemon/internal/testkit/chaos lists them
	beside *string, // a revision of git: daemons of this version and of that one share the data, in turns
) error {
	return repo().Chaos(ctx, chores.Campaign{
		Duration: valueOr(duration, 0), Seed: valueOr(seed, ""), Store: valueOr(store, ""), Faults: valueOr(faults, ""), Beside: valueOr(beside, ""),
	})
}

// ChaosDownloads kills the downloader, its filter, Redis and MongoDB at random while it downloads 100,000 pages of local servers, and checks that each has one result or a reason and that no host was called too often.
//
//	go tool mage chaosDownloads -tasks=20000 -seed=7
//	go tool mage chaosDownloads -kind=mongodb -tasks=2000 -hosts=200
func ChaosDownloads(
	ctx context.Context,
	tasks *int, // how many; 100000 if not given
	hosts *int, // on how many servers; 1000 if not given
	seed *string, // of URIs and kills; chosen and printed if not given
	kind *string, // serve (one process), roles (separate processes, with filter and Redis), mongodb (roles, with their store in MongoDB); roles if not given
) error {
	return repo().ChaosDownloads(ctx, chores.DownloadCampaign{
		Tasks: valueOr(tasks, 0), Hosts: valueOr(hosts, 0), Seed: valueOr(seed, ""), Kind: valueOr(kind, ""),
	})
}

// ChaosCrawl kills a crawl of 10,000 pages at 50 random moments, resumes it each time, and checks that each page is stored once, and pages, index and graph are whole.
//
//	go tool mage chaosCrawl
//	go tool mage chaosCrawl -pages=2000 -kills=20 -threads=1 -seed=7
func ChaosCrawl(
	ctx context.Context,
	pages *int, // how many are stored, of a site of ten times as many; 10000 if not given
	kills *int, // 50 if not given
	threads *int, // 64 if not given
	seed *string, // of the kills; chosen and printed if not given
) error {
	return repo().ChaosCrawl(ctx, chores.CrawlCampaign{
		Pages: valueOr(pages, 0), Kills: valueOr(kills, 0), Threads: valueOr(threads, 0), Seed: valueOr(seed, ""),
	})
}

// Python has the targets of the Python client.
type Python mg.Namespace

// Build makes the wheel and the source archive of the Python client in dist.
func (Python) Build(ctx context.Context) error { return repo().PythonBuild(ctx) }

// Test runs the tests of the Python client and of Scrapy; `mage test` runs them too.
func (Python) Test(ctx context.Context) error { return repo().PythonTest(ctx) }

func repo() chores.Repo {
	return chores.Repo{Dir: ".", Out: os.Stdout, NoSkip: os.Getenv("URIFILTER_NO_SKIP") == "1"}
}

func valueOr[T any](flag *T, otherwise T) T {
	if flag == nil {
		return otherwise
	}
	return *flag
}
