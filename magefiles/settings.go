//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Settings are the daemons' settings and tokens.
type Settings mg.Namespace

// Check validates the settings of every host without connecting to any, and shows them with secrets hidden.
//
//	go tool mage settings:check
func (Settings) Check(ctx context.Context, at *string) error {
	return with(at, provision.Options{}, func(t *provision.Toolkit) error { return t.SettingsCheck(ctx) })
}

// Scrape prints the daemons as Prometheus reads them from a file (file_sd_configs), without connecting to any.
//
//	go tool mage settings:scrape > urifilter.targets.json
func (Settings) Scrape(ctx context.Context, at *string) error {
	return with(at, provision.Options{}, func(t *provision.Toolkit) error { return t.SettingsScrape(ctx) })
}

// Push writes settings and tokens to the hosts, and restarts or reloads the affected daemons, one host at a time.
//
//	go tool mage settings:push -dryRun
//	go tool mage settings:push
func (Settings) Push(ctx context.Context, roll *string) error {
	return with(roll, provision.Options{}, func(t *provision.Toolkit) error { return t.SettingsPush(ctx) })
}

// Update checks the settings, then pushes them.
//
//	go tool mage settings:update
func (Settings) Update(ctx context.Context, roll *string) error {
	return with(roll, provision.Options{}, func(t *provision.Toolkit) error { return t.SettingsUpdate(ctx) })
}

// Token makes a token for a caller, shows it once, and adds its digest to the tokens file.
//
//	go tool mage settings:token -name=crawler -scopes=filter
//	go tool mage settings:token -name=crawler -scopes=read,filter -replace   # a new secret
//	go tool mage settings:token -name=news -program=uridownloader            # for the downloader
//	go tool mage settings:push                                               # then
func (Settings) Token(
	name *string, // who will use it
	scopes *string, // some of read, filter, forget, admin, comma-separated; filter if not given
	program *string, // uridownloader: a token for it, with some of read, submit, admin; submit if not given
	replace *bool, // give an existing name a new secret
	inventory *string, // the inventory in place of configs/hosts.yaml
) error {
	return coded(provision.MakeToken(provision.Options{Inventory: valueOr(inventory, ""), Program: valueOr(program, "")}, valueOr(name, ""), valueOr(scopes, ""), valueOr(replace, false)))
}
