//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Bitmap copies bit-maps to and from the archive in MongoDB.
type Bitmap mg.Namespace

// Init creates the bit-maps that are missing in the store or the archive of the filter hosts; existing ones stay.
//
//	go tool mage bitmap:init
func (Bitmap) Init(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.BitmapInit(ctx) })
}

// Update writes the bit-maps back to the archive now.
//
//	go tool mage bitmap:update
//	go tool mage bitmap:update -filters=uri,ip -hosts=web1
func (Bitmap) Update(
	ctx context.Context,
	filters *string, // only these filters, comma-separated
	change *string,
) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.BitmapUpdate(ctx, valueOr(filters, "")) })
}

// Restore merges the archive's bit-maps into the stores; what they already remember stays.
//
//	go tool mage bitmap:restore
//	go tool mage bitmap:restore -filters=uri -version=uri-12
func (Bitmap) Restore(
	ctx context.Context,
	filters *string, // only these filters, comma-separated
	version *string, // this version in place of the newest, as `urifilter bitmap list` shows it
	change *string,
) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error {
		return t.BitmapRestore(ctx, valueOr(filters, ""), valueOr(version, ""))
	})
}

// Status shows what the store and the archive hold for each filter, and how old it is.
//
//	go tool mage bitmap:status
func (Bitmap) Status(ctx context.Context, look *string) error {
	return with(look, provision.Options{}, func(t *provision.Toolkit) error { return t.BitmapStatus(ctx) })
}

// WritebackStart sets up the monthly writeback to the archive, and says when it runs next.
//
//	go tool mage bitmap:writebackStart
func (Bitmap) WritebackStart(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.WritebackStart(ctx) })
}

// WritebackStop removes the monthly writeback.
//
//	go tool mage bitmap:writebackStop
func (Bitmap) WritebackStop(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.WritebackStop(ctx) })
}
