// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Binds the module to the PCI function that hyp shows to root, and takes its interrupt. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "abi/pci.h"
#include "kmod/keel.h"

static irqreturn_t keel_interrupt(int irq, void *unused)
{
	keel_events_take();
	return IRQ_HANDLED;
}

static int keel_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int error = pci_enable_device(pdev);

	if (error)
		return error;
	pci_set_master(pdev);
	error = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI | PCI_IRQ_MSIX);
	if (error < 0)
		goto no_vectors;
	error = keel_start();
	if (error)
		goto not_started;
	error = request_irq(pci_irq_vector(pdev, 0), keel_interrupt, 0, "keel", pdev);
	if (error)
		goto no_interrupt;
	/* hyp raises the interrupt only for the first event: those from before would keep it
	 * silent. */
	keel_events_take();
	return 0;

no_interrupt:
	keel_stop();
not_started:
	pci_free_irq_vectors(pdev);
no_vectors:
	pci_disable_device(pdev);
	return error;
}

static void keel_pci_remove(struct pci_dev *pdev)
{
	free_irq(pci_irq_vector(pdev, 0), pdev);
	keel_stop();
	pci_free_irq_vectors(pdev);
	pci_disable_device(pdev);
}

static const struct pci_device_id keel_pci_ids[] = {
        {PCI_DEVICE(KEEL_PCI_VENDOR, KEEL_PCI_DEVICE)},
        {},
};
MODULE_DEVICE_TABLE(pci, keel_pci_ids);

/* Unbinding by hand would pull the memory from under open descriptors; unloading waits for them. */
static struct pci_driver keel_pci_driver = {
        .name = "keel",
        .id_table = keel_pci_ids,
        .probe = keel_pci_probe,
        .remove = keel_pci_remove,
        .driver.suppress_bind_attrs = true,
};

static int __init keel_module_init(void)
{
	int error = keel_hyp_detect();

	return error ? error : pci_register_driver(&keel_pci_driver);
}

static void __exit keel_module_exit(void)
{
	pci_unregister_driver(&keel_pci_driver);
}

module_init(keel_module_init);
module_exit(keel_module_exit);
MODULE_DESCRIPTION("keelOS: VMs of the resident hypervisor, for programs in root");
MODULE_LICENSE("Dual BSD/GPL");
