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
func (Settings) Check(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
) error {
	return with(flags{hosts: hosts, inventory: inventory}, func(t *provision.Toolkit) error { return t.SettingsCheck(ctx) })
}

// Push writes settings and tokens to the hosts, and restarts or reloads the affected daemons, one host at a time.
//
//	go tool mage settings:push -dryRun
//	go tool mage settings:push
func (Settings) Push(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	resume *bool, // continue with the hosts that the last run did not finish
	keepGoing *bool, // go on with other hosts after one has failed
	parallel *int, // how many hosts to work on at once
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, resume: resume, keepGoing: keepGoing, parallel: parallel, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.SettingsPush(ctx) })
}

// Update checks the settings, then pushes them.
//
//	go tool mage settings:update
func (Settings) Update(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	resume *bool, // continue with the hosts that the last run did not finish
	keepGoing *bool, // go on with other hosts after one has failed
	parallel *int, // how many hosts to work on at once
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, resume: resume, keepGoing: keepGoing, parallel: parallel, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.SettingsUpdate(ctx) })
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
	return coded(provision.MakeToken(flags{inventory: inventory, program: valueOr(program, "")}.options(), valueOr(name, ""), valueOr(scopes, ""), valueOr(replace, false)))
}
