/* SPDX-License-Identifier: BSD-2-Clause */
/* Where root finds the hyp PCI function: on a free device number of bus 0, by both of PCI's
 * configuration mechanisms. */

#include "hyp/core/hyppci.h"
#include "hyp/core/root.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/x86/x86.h"

#define CONFIG_ADDRESS 0xcf8u
#define CONFIG_DATA    0xcfcu
#define CONFIG_ENABLE  (1u << 31)
#define DEVICE_FIRST   30u /* searched downwards: chipsets use the ends */
#define FUNCTION_BYTES 4096u

static struct spinlock lock; /* all below */
static struct hyppci function;
static uint32_t config_address; /* what root wrote to CF8h last */
static unsigned device;         /* 0: none was free */
static uint64_t ecam_page;      /* 0: no ECAM */

static bool device_is_free(unsigned dev)
{
	outl(CONFIG_ADDRESS, CONFIG_ENABLE | (dev << 11));
	return inl(CONFIG_DATA) == 0xffffffffu;
}

void root_pci_init(struct vcpu *vcpus, unsigned count)
{
	const struct pci_ecam *ecam = acpi_ecam();

	hyppci_init(&function);
	for (device = DEVICE_FIRST; device > 0 && !device_is_free(device); device--)
		continue;
	outl(CONFIG_ADDRESS, 0);
	if (device == 0) {
		log_line("root: no free device number on PCI bus 0: keel.ko will not find hyp");
		return;
	}
	for (unsigned i = 0; i < count; i++)
		cpu_trap_port(vcpus[i].cpu_state, CONFIG_ADDRESS, 8);
	if (ecam == NULL || ecam->start_bus != 0)
		return;
	ecam_page = ecam->base.value + ((uint64_t)device << 15);
	if (cpu_nested_map(
	            &root_partition.nested, GPA(ecam_page), HPA(ecam_page), FUNCTION_BYTES, 0) != 0)
		panic("hyp's heap is too small for root's nested page tables");
}

void root_pci_reset(void)
{
	spin_lock(&lock);
	hyppci_init(&function);
	spin_unlock(&lock);
	__atomic_store_n(&config_address, 0, __ATOMIC_RELAXED);
}

/* Sends what the model says can be sent now. Needs: lock not held. */
static void send(void)
{
	uint64_t address;
	uint32_t data;

	if (root_pci_event(&address, &data))
		root_send_msi(address, data);
}

static uint32_t function_access(unsigned offset, unsigned size, bool write, uint32_t value)
{
	bool ready = false;

	spin_lock(&lock);
	if (write)
		ready = hyppci_config_write(&function, offset, size, value);
	else
		value = hyppci_config_read(&function, offset, size);
	spin_unlock(&lock);
	if (ready)
		send();
	return value;
}

/* The address register's own accesses go to the real one too, so that the data ports of real
 * functions work. */
bool root_pci_port(uint16_t port, unsigned size, bool write, uint32_t *value)
{
	uint32_t address;

	if (port == CONFIG_ADDRESS && size == 4 && write) {
		__atomic_store_n(&config_address, *value, __ATOMIC_RELAXED);
		return false;
	}
	address = __atomic_load_n(&config_address, __ATOMIC_RELAXED);
	if (port < CONFIG_DATA || (address & ~0xffu) != (CONFIG_ENABLE | (device << 11)))
		return false;
	*value = function_access((address & 0xfc) + (port & 3u), size, write, *value);
	return true;
}

bool root_pci_ecam(uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	if (ecam_page == 0 || (gpa & ~(uint64_t)(FUNCTION_BYTES - 1)) != ecam_page)
		return false;
	*value = function_access(
	        (unsigned)(gpa & (FUNCTION_BYTES - 1)), size, write, (uint32_t)*value);
	return true;
}

bool root_pci_event(uint64_t *address, uint32_t *data)
{
	bool ready;

	if (device == 0)
		return false;
	spin_lock(&lock);
	ready = hyppci_interrupt(&function, address, data);
	spin_unlock(&lock);
	return ready;
}
