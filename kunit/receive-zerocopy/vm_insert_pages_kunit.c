// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for vm_insert_pages(), which inserts consecutive pages of a folio
 * at once: whatever is inserted, in whatever order and however it ends, must
 * look as if each page had been inserted alone. That is, the right page at each
 * address, a reference, a mapping and a page of the process's RSS for each of
 * them, and none left when they are gone.
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* What one page table maps. The region of a case has three of them. */
#define TABLE_SIZE	(PTRS_PER_PTE * PAGE_SIZE)

#define MAX_PAGES	1024
#define MAX_FOLIOS	64

struct insert_ctx {
	unsigned long start;	/* of the region */
	unsigned long table;	/* the first address of a page table of its own */
	struct page *pages[MAX_PAGES];
	unsigned long nr_pages;
	struct folio *folios[MAX_FOLIOS];
	unsigned int nr_folios;
	/* What the process shall have mapped of @pages, and where. */
	unsigned long addr;
	unsigned long first;
	unsigned long mapped;
};

KUNIT_DEFINE_ACTION_WRAPPER(insert_fput, fput, struct file *);
KUNIT_DEFINE_ACTION_WRAPPER(insert_folio_put, folio_put, struct folio *);

static int insert_fop_mmap(struct file *file, struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND);
	return 0;
}

static const struct file_operations insert_fops = {
	.owner = THIS_MODULE,
	.mmap = insert_fop_mmap,
};

/* Maps all pages of the case with the mapping itself. */
static int insert_fop_mmap_prepare(struct vm_area_desc *desc)
{
	struct insert_ctx *ctx = desc->file->private_data;

	mmap_action_map_kernel_pages(desc, desc->start, ctx->pages,
				     ctx->nr_pages);
	return 0;
}

static const struct file_operations insert_prepare_fops = {
	.owner = THIS_MODULE,
	.mmap_prepare = insert_fop_mmap_prepare,
};

static unsigned long insert_mmap(struct kunit *test,
				 const struct file_operations *fops,
				 unsigned long size, int flags)
{
	unsigned long prot = PROT_READ;
	struct file *file;
	unsigned long start;

	file = anon_inode_getfile("[vm_insert_pages]", fops, test->priv, flags);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, insert_fput, file), 0);

	if (flags == O_RDWR)
		prot |= PROT_WRITE;
	start = kunit_vm_mmap(test, file, 0, size, prot, MAP_SHARED, 0);
	KUNIT_ASSERT_NE(test, start, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(start));

	return start;
}

/* An empty region that vm_insert_pages() may fill. */
static void insert_region(struct kunit *test, int flags)
{
	struct insert_ctx *ctx = test->priv;

	ctx->start = insert_mmap(test, &insert_fops, 3 * TABLE_SIZE, flags);
	ctx->table = ALIGN(ctx->start, TABLE_SIZE);
}

/* A folio of the case, with a different content in each page. */
static struct folio *insert_folio(struct kunit *test, unsigned int order)
{
	struct insert_ctx *ctx = test->priv;
	struct folio *folio;
	struct page *page;
	long i;

	KUNIT_ASSERT_LT(test, ctx->nr_folios, MAX_FOLIOS);
	page = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_ZERO, order);
	KUNIT_ASSERT_NOT_NULL(test, page);
	folio = page_folio(page);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, insert_folio_put, folio), 0);
	for (i = 0; i < folio_nr_pages(folio); i++) {
		u32 *content = kmap_local_page(folio_page(folio, i));

		content[0] = (ctx->nr_folios + 1) << 16 | i;
		content[PAGE_SIZE / sizeof(u32) - 1] = content[0];
		kunmap_local(content);
	}
	ctx->folios[ctx->nr_folios++] = folio;

	return folio;
}

/* The pages that are to be inserted next. */
static void insert_add(struct kunit *test, struct page *page, long nr)
{
	struct insert_ctx *ctx = test->priv;

	KUNIT_ASSERT_LE(test, ctx->nr_pages + nr, MAX_PAGES);
	while (nr--)
		ctx->pages[ctx->nr_pages++] = page++;
}

static void insert_add_folio(struct kunit *test, unsigned int order)
{
	insert_add(test, folio_page(insert_folio(test, order), 0), 1L << order);
}

/* Inserts all pages of the case from @addr on; sets *left, as the call does. */
static int insert_all(struct kunit *test, unsigned long addr,
		      unsigned long *left)
{
	struct insert_ctx *ctx = test->priv;
	struct vm_area_struct *vma;
	int ret = -ENOENT;

	*left = ctx->nr_pages;
	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, ctx->start);
	if (vma)
		ret = vm_insert_pages(vma, addr, ctx->pages, left);
	mmap_read_unlock(current->mm);
	ctx->addr = addr;
	ctx->mapped = ctx->nr_pages - *left;

	return ret;
}

static void insert_zap(unsigned long start)
{
	struct vm_area_struct *vma;

	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, start);
	if (vma)
		zap_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
	mmap_read_unlock(current->mm);
}

/* The page at @addr, NULL when there is none. */
static struct page *insert_page_at(unsigned long addr)
{
	struct page *page;
	long ret;

	mmap_read_lock(current->mm);
	ret = get_user_pages(addr & PAGE_MASK, 1, 0, &page);
	mmap_read_unlock(current->mm);
	if (ret != 1)
		return NULL;
	/* Compared only, and those who ask have references of their own. */
	put_page(page);

	return page;
}

/* How often @page, or any page of @folio, is among those that are mapped. */
static int insert_count(struct insert_ctx *ctx, struct folio *folio,
			struct page *page)
{
	unsigned long i;
	int n = 0;

	for (i = ctx->first; i < ctx->first + ctx->mapped; i++) {
		if (page ? ctx->pages[i] == page :
			   page_folio(ctx->pages[i]) == folio)
			n++;
	}

	return n;
}

/* References, mappings and RSS are those of the pages that are mapped. */
static void insert_expect_counts(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned int i;
	int rss = 0;
	long j;

	for (i = 0; i < ctx->nr_folios; i++) {
		struct folio *folio = ctx->folios[i];
		int n = insert_count(ctx, folio, NULL);

		rss += n;
		KUNIT_EXPECT_EQ_MSG(test, folio_ref_count(folio), 1 + n,
				    "references of folio %u", i);
		KUNIT_EXPECT_EQ_MSG(test, folio_mapcount(folio), n,
				    "mappings of folio %u", i);
		if (!IS_ENABLED(CONFIG_PAGE_MAPCOUNT))
			continue;
		for (j = 0; j < folio_nr_pages(folio); j++) {
			struct page *page = folio_page(folio, j);

			/* Not those that a case has given a type. */
			if (page_has_type(page))
				continue;
			KUNIT_EXPECT_EQ_MSG(test, atomic_read(&page->_mapcount) + 1,
					    insert_count(ctx, folio, page),
					    "mappings of page %ld of folio %u", j, i);
		}
	}
	KUNIT_EXPECT_EQ(test, get_mm_counter_sum(current->mm, MM_FILEPAGES), rss);
	KUNIT_EXPECT_EQ(test, get_mm_counter_sum(current->mm, MM_SHMEMPAGES), 0);
	KUNIT_EXPECT_EQ(test, get_mm_counter_sum(current->mm, MM_ANONPAGES), 0);
}

/* Each page is where it belongs, and reads as what is in it. */
static void insert_expect_pages(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long i;

	for (i = 0; i < ctx->mapped; i++) {
		unsigned long addr = ctx->addr + i * PAGE_SIZE;
		struct page *page = ctx->pages[ctx->first + i];
		u32 is[2] = { 1, 2 }, want;

		KUNIT_EXPECT_PTR_EQ_MSG(test, insert_page_at(addr), page,
					"page %lu", i);
		memcpy_from_page((char *)&want, page, 0, sizeof(want));
		KUNIT_EXPECT_EQ(test, 0,
				copy_from_user(&is[0], (void __user *)addr, sizeof(u32)));
		addr += PAGE_SIZE - sizeof(u32);
		KUNIT_EXPECT_EQ(test, 0,
				copy_from_user(&is[1], (void __user *)addr, sizeof(u32)));
		KUNIT_EXPECT_EQ_MSG(test, is[0], want, "page %lu", i);
		KUNIT_EXPECT_EQ_MSG(test, is[1], want, "end of page %lu", i);
	}
}

static void insert_expect_hole(struct kunit *test, unsigned long addr)
{
	KUNIT_EXPECT_NULL(test, insert_page_at(addr));
}

/* The region has what it shall have, nothing around it, and all can go again. */
static void insert_expect(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;

	insert_expect_pages(test);
	insert_expect_counts(test);
	insert_zap(ctx->start);
	ctx->mapped = 0;
	insert_expect_counts(test);
}

/* All pages go in, @at pages behind the begin of a page table. */
static void insert_expect_all(struct kunit *test, unsigned long at)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long addr = ctx->table + at * PAGE_SIZE;
	unsigned long left;

	KUNIT_EXPECT_EQ(test, insert_all(test, addr, &left), 0);
	KUNIT_EXPECT_EQ(test, left, 0);
	if (addr > ctx->start)
		insert_expect_hole(test, addr - PAGE_SIZE);
	insert_expect_hole(test, addr + ctx->nr_pages * PAGE_SIZE);
	insert_expect(test);
}

static void insert_single_pages(struct kunit *test)
{
	int i;

	for (i = 0; i < 20; i++)
		insert_add_folio(test, 0);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

struct insert_order {
	const char *name;
	unsigned int order;
};

/* Some are longer than what is inserted at once. */
static const struct insert_order insert_orders[] = {
	{ "order 1", 1 },
	{ "order 2", 2 },
	{ "order 3", 3 },
	{ "order 4", 4 },
	{ "order 5", 5 },
	{ "order 7", 7 },
};

KUNIT_ARRAY_PARAM_DESC(insert_orders, insert_orders, name);

static void insert_whole_folio(struct kunit *test)
{
	const struct insert_order *p = test->param_value;

	insert_add_folio(test, p->order);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

struct insert_part {
	const char *name;
	unsigned int order;
	unsigned int first;
	unsigned int nr;
};

static const struct insert_part insert_parts[] = {
	{ "first half", 4, 0, 8 },
	{ "second half", 4, 8, 8 },
	{ "all but the ends", 4, 1, 14 },
	{ "last page", 4, 15, 1 },
	{ "one page in the middle", 2, 1, 1 },
	{ "many pages in the middle", 7, 5, 100 },
};

KUNIT_ARRAY_PARAM_DESC(insert_parts, insert_parts, name);

static void insert_part_of_folio(struct kunit *test)
{
	const struct insert_part *p = test->param_value;
	struct folio *folio = insert_folio(test, p->order);

	insert_add(test, folio_page(folio, p->first), p->nr);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

struct insert_place {
	const char *name;
	long at;	/* pages from the end of a page table */
};

static const struct insert_place insert_places[] = {
	{ "ends with the page table", -16 },
	{ "one page in the next one", -15 },
	{ "half in the next one", -8 },
	{ "one page in this one", -1 },
	{ "begins with the page table", 0 },
};

KUNIT_ARRAY_PARAM_DESC(insert_places, insert_places, name);

static void insert_at_end_of_page_table(struct kunit *test)
{
	const struct insert_place *p = test->param_value;

	insert_add_folio(test, 4);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, PTRS_PER_PTE + p->at);
}

/* The second folio lies behind the first one in memory, too. */
static void insert_folios_back_to_back(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	int i, j;

	/* Nobody promises neighbours, but among so many there are some. */
	for (i = 0; i < 40; i++)
		insert_folio(test, 3);
	for (i = 0; i < 40 && !ctx->nr_pages; i++) {
		for (j = 0; j < 40 && !ctx->nr_pages; j++) {
			if (folio_pfn(ctx->folios[j]) != folio_pfn(ctx->folios[i]) + 8)
				continue;
			insert_add(test, folio_page(ctx->folios[i], 4), 4);
			insert_add(test, folio_page(ctx->folios[j], 0), 8);
		}
	}
	KUNIT_ASSERT_EQ(test, ctx->nr_pages, 12);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

static void insert_folios_and_single_pages(struct kunit *test)
{
	insert_add_folio(test, 0);
	insert_add_folio(test, 3);
	insert_add_folio(test, 0);
	insert_add_folio(test, 0);
	insert_add_folio(test, 1);
	insert_add_folio(test, 4);
	insert_add_folio(test, 0);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

static void insert_folio_backwards(struct kunit *test)
{
	struct folio *folio = insert_folio(test, 3);
	int i;

	for (i = 7; i >= 0; i--)
		insert_add(test, folio_page(folio, i), 1);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

static void insert_folio_with_gaps(struct kunit *test)
{
	struct folio *folio = insert_folio(test, 4);

	insert_add(test, folio_page(folio, 0), 3);
	insert_add(test, folio_page(folio, 4), 3);
	insert_add(test, folio_page(folio, 9), 1);
	insert_add(test, folio_page(folio, 11), 5);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

static void insert_pages_repeated(struct kunit *test)
{
	struct folio *folio = insert_folio(test, 3);
	int i;

	for (i = 0; i < 8; i++)
		insert_add(test, folio_page(folio, 0), 1);
	insert_add(test, folio_page(folio, 0), 8);
	insert_add(test, folio_page(folio, 4), 4);
	insert_add(test, folio_page(folio, 4), 4);
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 3);
}

/* More than a page table holds, in folios as receive buffers have them. */
static void insert_more_than_a_page_table(struct kunit *test)
{
	int i;

	for (i = 0; i < 38; i++) {
		insert_add_folio(test, 4);
		if (i % 9 == 0)
			insert_add_folio(test, 0);
	}
	insert_region(test, O_RDONLY);
	insert_expect_all(test, 5);
}

struct insert_busy {
	const char *name;
	unsigned int busy;	/* the page of the folio whose place is taken */
	long at;		/* pages from the end of a page table */
};

static const struct insert_busy insert_busies[] = {
	{ "first page", 0, 3 },
	{ "second page", 1, 3 },
	{ "in the middle", 11, 3 },
	{ "last page of the first go", 31, 3 },
	{ "first page of the second go", 32, 3 },
	{ "last page", 63, 3 },
	{ "last page of the page table", 7, -8 },
	{ "first page of the next page table", 8, -8 },
};

KUNIT_ARRAY_PARAM_DESC(insert_busies, insert_busies, name);

/* What comes before the page that is there stays, what comes after stays out. */
static void insert_busy_in_run(struct kunit *test)
{
	const struct insert_busy *p = test->param_value;
	struct insert_ctx *ctx = test->priv;
	unsigned long addr, left, nr;
	struct folio *folio;
	struct page *busy;
	int ret;

	insert_region(test, O_RDONLY);
	addr = ctx->table + TABLE_SIZE + p->at * PAGE_SIZE;
	folio = insert_folio(test, 0);
	busy = folio_page(folio, 0);
	insert_add(test, busy, 1);
	ret = insert_all(test, addr + p->busy * PAGE_SIZE, &left);
	KUNIT_ASSERT_EQ(test, ret, 0);

	/* From here on it is none of those that are to be inserted. */
	ctx->nr_pages = 0;
	insert_add_folio(test, 6);
	nr = ctx->nr_pages;
	ret = insert_all(test, addr, &left);
	KUNIT_EXPECT_EQ(test, ret, -EBUSY);
	KUNIT_EXPECT_EQ(test, left, nr - p->busy);
	insert_expect_pages(test);
	KUNIT_EXPECT_PTR_EQ(test, insert_page_at(addr + p->busy * PAGE_SIZE), busy);
	insert_expect_hole(test, addr + (p->busy + 1) * PAGE_SIZE);

	/* For the counts, what is there counts like the others. */
	ctx->pages[p->busy] = busy;
	ctx->mapped = p->busy + 1;
	insert_expect(test);
}

/* A page that is in the way may be gone for the next call: it goes on there. */
static void insert_goes_on_after_busy(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long addr, left;
	struct folio *folio;

	insert_region(test, O_RDONLY);
	addr = ctx->table + 3 * PAGE_SIZE;
	folio = insert_folio(test, 4);
	insert_add(test, folio_page(folio, 5), 1);
	KUNIT_ASSERT_EQ(test, insert_all(test, addr + 5 * PAGE_SIZE, &left), 0);

	ctx->nr_pages = 0;
	insert_add(test, folio_page(folio, 0), 16);
	KUNIT_EXPECT_EQ(test, insert_all(test, addr, &left), -EBUSY);
	KUNIT_ASSERT_EQ(test, left, 11);

	/* The one that is there happens to be the right one. */
	ctx->nr_pages = 0;
	insert_add(test, folio_page(folio, 6), 10);
	KUNIT_EXPECT_EQ(test, insert_all(test, addr + 6 * PAGE_SIZE, &left), 0);
	KUNIT_EXPECT_EQ(test, left, 0);

	ctx->nr_pages = 0;
	insert_add(test, folio_page(folio, 0), 16);
	ctx->addr = addr;
	ctx->mapped = 16;
	insert_expect(test);
}

struct insert_outside {
	const char *name;
	long at;	/* pages from the begin of the region */
	long end;	/* or from its end, when not 0 */
};

static const struct insert_outside insert_outsides[] = {
	{ "begins one page before", -1, 0 },
	{ "lies before", -16, 0 },
	{ "ends one page behind", 0, -15 },
	{ "lies behind", 0, 1 },
};

KUNIT_ARRAY_PARAM_DESC(insert_outsides, insert_outsides, name);

static void insert_outside_of_vma(struct kunit *test)
{
	const struct insert_outside *p = test->param_value;
	struct insert_ctx *ctx = test->priv;
	unsigned long addr, left;
	int ret;

	insert_region(test, O_RDONLY);
	addr = ctx->start + p->at * PAGE_SIZE;
	if (p->end)
		addr = ctx->start + 3 * TABLE_SIZE + p->end * PAGE_SIZE;
	insert_add_folio(test, 4);
	ret = insert_all(test, addr, &left);
	KUNIT_EXPECT_EQ(test, ret, -EFAULT);
	KUNIT_EXPECT_EQ(test, left, 16);
	insert_expect_hole(test, ctx->start);
	insert_expect_hole(test, ctx->start + 3 * TABLE_SIZE - PAGE_SIZE);
	insert_expect(test);
}

/* The zero page belongs to nobody, and is in no count. */
static void insert_zero_page(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	int refs, mappings;
	struct page *zero;

	insert_region(test, O_RDONLY);
	zero = ZERO_PAGE(ctx->table);
	refs = page_ref_count(zero);
	mappings = atomic_read(&zero->_mapcount);
	insert_add_folio(test, 2);
	insert_add(test, zero, 1);
	insert_add(test, zero, 1);
	insert_add_folio(test, 2);
	insert_expect_all(test, 3);
	KUNIT_EXPECT_EQ(test, page_ref_count(zero), refs);
	KUNIT_EXPECT_EQ(test, atomic_read(&zero->_mapcount), mappings);
}

/* Where it could be written to, there is none. */
static void insert_zero_page_writable(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;
	int ret;

	insert_region(test, O_RDWR);
	insert_add_folio(test, 2);
	insert_add(test, ZERO_PAGE(ctx->table), 1);
	insert_add_folio(test, 2);
	ret = insert_all(test, ctx->table, &left);
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
	KUNIT_EXPECT_EQ(test, left, 5);
	insert_expect_hole(test, ctx->table + 4 * PAGE_SIZE);
	insert_expect(test);
}

static void insert_free_pages(void *page)
{
	__free_pages(page, 2);
}

/* The pages of a block that is no folio have no references of their own. */
static void insert_page_without_reference(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;
	struct page *block;
	int ret;

	insert_region(test, O_RDONLY);
	insert_add_folio(test, 3);
	block = alloc_pages(GFP_KERNEL | __GFP_ZERO, 2);
	KUNIT_ASSERT_NOT_NULL(test, block);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, insert_free_pages, block), 0);
	insert_add(test, block, 4);
	ret = insert_all(test, ctx->table, &left);
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
	KUNIT_EXPECT_EQ(test, left, 3);
	KUNIT_EXPECT_EQ(test, page_ref_count(block), 2);
	KUNIT_EXPECT_EQ(test, page_ref_count(block + 1), 0);
	insert_expect_hole(test, ctx->table + 9 * PAGE_SIZE);

	/* The first page of the block is for this case alone to count. */
	ctx->folios[ctx->nr_folios++] = page_folio(block);
	insert_expect(test);
}

static void insert_clear_type(void *data)
{
	struct page *page = data;

	page->page_type = UINT_MAX;
}

/* A page with a type is refused, also one in the middle of a folio. */
static void insert_page_with_type(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;
	struct page *page;
	int ret;

	insert_region(test, O_RDONLY);
	insert_add_folio(test, 4);
	page = ctx->pages[6];
	page->page_type = (unsigned int)PGTY_offline << 24;
	ret = kunit_add_action_or_reset(test, insert_clear_type, page);
	KUNIT_ASSERT_EQ(test, ret, 0);
	ret = insert_all(test, ctx->table, &left);
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
	KUNIT_EXPECT_EQ(test, left, 10);
	insert_expect_hole(test, ctx->table + 6 * PAGE_SIZE);
	insert_expect(test);
}

static void insert_slab_page(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;
	void *slab;
	int ret;

	insert_region(test, O_RDONLY);
	slab = kunit_kzalloc(test, 64, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slab);
	insert_add_folio(test, 1);
	insert_add(test, virt_to_head_page(slab), 1);
	ret = insert_all(test, ctx->table, &left);
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
	KUNIT_EXPECT_EQ(test, left, 1);
	insert_expect(test);
}

static void insert_nothing(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;

	insert_region(test, O_RDONLY);
	KUNIT_EXPECT_EQ(test, insert_all(test, ctx->table, &left), 0);
	KUNIT_EXPECT_EQ(test, left, 0);
	insert_expect_counts(test);
}

/* The pages stay alive as long as they are mapped, and no longer. */
static void insert_unmap(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;
	unsigned long left;

	insert_region(test, O_RDONLY);
	insert_add_folio(test, 4);
	insert_add_folio(test, 0);
	insert_add_folio(test, 3);
	KUNIT_ASSERT_EQ(test, insert_all(test, ctx->table, &left), 0);
	insert_expect_counts(test);

	/* In the middle of the first folio, then the rest. */
	KUNIT_ASSERT_EQ(test, vm_munmap(ctx->start, ctx->table - ctx->start + 5 * PAGE_SIZE), 0);
	ctx->first = 5;
	ctx->mapped -= 5;
	ctx->addr += 5 * PAGE_SIZE;
	insert_expect_pages(test);
	insert_expect_counts(test);
	KUNIT_ASSERT_EQ(test, 0,
			vm_munmap(ctx->addr, ctx->start + 3 * TABLE_SIZE - ctx->addr));
	ctx->mapped = 0;
	insert_expect_counts(test);
}

/* The other way to get there: the mapping comes with its pages. */
static void insert_with_mapping(struct kunit *test)
{
	struct insert_ctx *ctx = test->priv;

	insert_add_folio(test, 4);
	insert_add_folio(test, 0);
	insert_add_folio(test, 2);
	ctx->start = insert_mmap(test, &insert_prepare_fops, 32 * PAGE_SIZE, O_RDONLY);
	ctx->addr = ctx->start;
	ctx->mapped = ctx->nr_pages;
	insert_expect_hole(test, ctx->start + ctx->nr_pages * PAGE_SIZE);
	insert_expect(test);
}

static int insert_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct insert_ctx), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static struct kunit_case insert_cases[] = {
	KUNIT_CASE(insert_single_pages),
	KUNIT_CASE_PARAM(insert_whole_folio, insert_orders_gen_params),
	KUNIT_CASE_PARAM(insert_part_of_folio, insert_parts_gen_params),
	KUNIT_CASE_PARAM(insert_at_end_of_page_table, insert_places_gen_params),
	KUNIT_CASE(insert_folios_back_to_back),
	KUNIT_CASE(insert_folios_and_single_pages),
	KUNIT_CASE(insert_folio_backwards),
	KUNIT_CASE(insert_folio_with_gaps),
	KUNIT_CASE(insert_pages_repeated),
	KUNIT_CASE(insert_more_than_a_page_table),
	KUNIT_CASE_PARAM(insert_busy_in_run, insert_busies_gen_params),
	KUNIT_CASE(insert_goes_on_after_busy),
	KUNIT_CASE_PARAM(insert_outside_of_vma, insert_outsides_gen_params),
	KUNIT_CASE(insert_zero_page),
	KUNIT_CASE(insert_zero_page_writable),
	KUNIT_CASE(insert_page_without_reference),
	KUNIT_CASE(insert_page_with_type),
	KUNIT_CASE(insert_slab_page),
	KUNIT_CASE(insert_nothing),
	KUNIT_CASE(insert_unmap),
	KUNIT_CASE(insert_with_mapping),
	{}
};

static struct kunit_suite insert_suite = {
	.name = "vm_insert_pages",
	.init = insert_init,
	.test_cases = insert_cases,
};

kunit_test_suite(insert_suite);

MODULE_DESCRIPTION("KUnit tests for vm_insert_pages()");
MODULE_LICENSE("GPL");
