package chores

import (
	"cmp"
	"context"
	"strconv"
	"time"
)

// Campaign holds the options of a run of the history checker; zero fields mean its defaults.
type Campaign struct {
	Duration      time.Duration
	Seed          string
	Store, Faults string
	Beside        string
}

// Chaos disturbs daemons for a while and checks every answer against the one rule.
func (r Repo) Chaos(ctx context.Context, c Campaign) error {
	c.Duration = cmp.Or(c.Duration, 10*time.Minute)
	args := []string{"test", "./daemon/internal/testkit/chaos", "-count=1", "-timeout=0", "-v", "-run=^TestCampaign$", "-args", "-chaos.duration=" + c.Duration.String()}
	for flag, value := range map[string]string{"seed": c.Seed, "store": c.Store, "faults": c.Faults, "beside": c.Beside} {
		if value != "" {
			args = append(args, "-chaos."+flag+"="+value)
		}
	}
	return r.run(ctx, nil, "go", args...)
}

// CrawlCampaign holds the options of a campaign of the crawler; zero fields mean its defaults.
type CrawlCampaign struct {
	Pages, Kills, Threads int
	Seed                  string
}

// ChaosCrawl kills one crawl repeatedly, and checks what it has stored in the end.
func (r Repo) ChaosCrawl(ctx context.Context, c CrawlCampaign) error {
	args := []string{"test", "./daemon/uridownloader", "-count=1", "-timeout=0", "-v", "-run=^TestCampaignCrawl$", "-args",
		"-crawl.pages=" + strconv.Itoa(cmp.Or(c.Pages, 10_000)), "-crawl.kills=" + strconv.Itoa(cmp.Or(c.Kills, 50)), "-crawl.threads=" + strconv.Itoa(cmp.Or(c.Threads, 64))}
	if c.Seed != "" {
		args = append(args, "-crawl.seed="+c.Seed)
	}
	return r.run(ctx, nil, "go", args...)
}

// DownloadCampaign holds the options of a campaign of the downloader; zero fields mean its defaults.
type DownloadCampaign struct {
	Tasks, Hosts int
	Seed, Kind   string
}

// ChaosDownloads kills the downloader while it downloads, and checks what it has stored.
func (r Repo) ChaosDownloads(ctx context.Context, c DownloadCampaign) error {
	args := []string{"test", "./daemon/internal/testkit/downloads", "-count=1", "-timeout=0", "-v", "-run=^TestCampaign$", "-args",
		"-campaign.tasks=" + strconv.Itoa(cmp.Or(c.Tasks, 100_000)), "-campaign.hosts=" + strconv.Itoa(cmp.Or(c.Hosts, 1000)), "-campaign.kind=" + cmp.Or(c.Kind, "roles")}
	if c.Seed != "" {
		args = append(args, "-campaign.seed="+c.Seed)
	}
	return r.run(ctx, nil, "go", args...)
}
